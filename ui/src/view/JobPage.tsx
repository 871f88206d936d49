/** One job: what it does and asks for, its tabs. */

import { computed } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { executors, lasting, message, phase, stages, tone, wanted } from "../model/job";
import { address, details, forgetDetails, now, readDetails, readMay, readSamples, route } from "../store";
import type { Job } from "../types";
import { Actions } from "./Actions";
import { Charts } from "./Charts";
import { Checkpoints } from "./Checkpoints";
import { Configuration } from "./Configuration";
import { Diagnosis } from "./Diagnosis";
import { Events } from "./Events";
import { StageGraph } from "./StageGraph";
import { Life } from "./Life";
import { Problems } from "./Problems";
import { Timeline } from "./Timeline";
import { Phase } from "./parts";

const ALL = [
  ["overview", "Overview"],
  ["diagnosis", "Diagnosis"],
  ["timeline", "Timeline"],
  ["checkpoints", "Checkpoints"],
  ["configuration", "Configuration"],
  ["events", "Events and pods"],
] as const;
const tabs = computed(() => ALL.filter(([id]) => id !== "events" || details.value === null || details.value.pods !== undefined));

const REFRESH = 15_000; // milliseconds: Events and pods change without the job

export function JobPage({ job }: { job: Job }) {
  useFresh(job);
  const tab = tabs.value.find(([id]) => id === route.value?.tab)?.[0] ?? "overview";
  const since = lasting(job, now.value);
  return (
    <article class="job" aria-labelledby="job-title">
      <header class="head">
        <div>
          <h1 id="job-title">
            {job.metadata.name} <Phase tone={tone(job)}>{phase(job)}</Phase>
            {wanted(job) !== phase(job) && <span class="to">→ {wanted(job)}</span>}
          </h1>
          <p class="says" aria-live="polite">
            {message(job)}
            {since && <span class="faint"> · {since}</span>}
          </p>
        </div>
        <Actions job={job} />
      </header>
      {tab !== "diagnosis" && <Problems job={job} />}
      <Tabs job={job} tab={tab} />
      <div id={`panel-${tab}`} role="tabpanel" aria-labelledby={`tab-${tab}`} class="panels">
        {tab === "overview" && <Overview job={job} />}
        {tab === "diagnosis" && <Diagnosis job={job} />}
        {tab === "timeline" && <Timeline />}
        {tab === "checkpoints" && <Checkpoints job={job} />}
        {tab === "configuration" && <Configuration job={job} />}
        {tab === "events" && <Events />}
      </div>
    </article>
  );
}

function Overview({ job }: { job: Job }) {
  return (
    <>
      <Life job={job} />
      {executors(job) && <p class="executors">{executors(job)}</p>}
      <StageGraph job={job} />
      {stages(job).length > 0 && <Charts job={job} />}
    </>
  );
}

function Tabs({ job, tab }: { job: Job; tab: string }) {
  const list = useRef<HTMLDivElement>(null);
  const shown = tabs.value;
  const turn = (event: KeyboardEvent) => {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (step === undefined) return;
    event.preventDefault();
    const at = shown.findIndex(([id]) => id === tab);
    const [next] = shown[(at + step + shown.length) % shown.length]!;
    location.replace(address(job.metadata, next));
    list.current!.querySelector<HTMLElement>(`#tab-${next}`)?.focus();
  };
  return (
    <div class="tabs" role="tablist" aria-label="About the job" ref={list} onKeyDown={turn}>
      {shown.map(([id, label]) => (
        <a
          key={id}
          id={`tab-${id}`}
          role="tab"
          href={address(job.metadata, id)}
          aria-selected={id === tab}
          aria-controls={id === tab ? `panel-${id}` : undefined}
          tabIndex={id === tab ? 0 : -1}
        >
          {label}
        </a>
      ))}
    </div>
  );
}

/** Keep details and samples up to date: what else there is to read changes with the status, or without it. */
function useFresh(job: Job) {
  const { uid } = job.metadata;
  useEffect(() => forgetDetails, [uid]);
  useEffect(() => void readMay(job), [uid]);
  useEffect(() => {
    void readSamples(job);
  }, [uid, job]);
  const s = job.status;
  const moment = [phase(job), s?.epoch, s?.checkpoint?.latest, s?.savepoint?.latest, s?.upgrade?.step, job.metadata.generation].join();
  useEffect(() => {
    const due = setTimeout(() => void readDetails(job), details.peek() === null ? 0 : 300);
    const again = setInterval(() => !document.hidden && void readDetails(job), REFRESH);
    return () => {
      clearTimeout(due);
      clearInterval(again);
    };
  }, [uid, moment]);
}
