/** Epochs, stops, savepoints, upgrades and failures over the life of the job: drawn, and as a list. */

import { between, duration } from "../model/format";
import { details, now } from "../store";
import { type Job, type Span, isProblem } from "../types";
import { Empty, Panel, Time } from "./parts";

const LANES: [Span["kind"], string][] = [
  ["Epoch", "Epochs"],
  ["Termination", "Stops, drains"],
  ["Savepoint", "Savepoints"],
  ["Upgrade", "Upgrades"],
  ["Failure", "Failures"],
];

export function Timeline({ job }: { job: Job }) {
  const found = details.value?.timeline;
  return (
    <Panel id="timeline" title="Timeline" aside={<span class="faint">from status, index, Events and pods: what those have forgotten is missing</span>}>
      {found === undefined ? (
        <Empty>Reading…</Empty>
      ) : isProblem(found) ? (
        <Empty>{found.problem}</Empty>
      ) : found.length === 0 ? (
        <Empty>Nothing has happened yet.</Empty>
      ) : (
        <Drawn spans={found} begin={job.metadata.creationTimestamp} />
      )}
    </Panel>
  );
}

function Drawn({ spans, begin }: { spans: Span[]; begin: string }) {
  const end = now.value;
  const from = Math.min(Date.parse(begin), ...spans.map((s) => Date.parse(s.from)));
  const whole = Math.max(1, end - from);
  const percent = (time: number) => ((time - from) / whole) * 100;
  const lanes = LANES.filter(([kind]) => spans.some((s) => s.kind === kind));
  return (
    <>
      <div class="lanes" aria-hidden="true">
        {lanes.map(([kind, label]) => (
          <div class="lane" key={kind}>
            <span class="label">{label}</span>
            <div class="track">
              {spans
                .filter((s) => s.kind === kind)
                .map((s) => {
                  const left = percent(Date.parse(s.from));
                  const right = percent(s.open ? end : Date.parse(s.until ?? s.from));
                  return (
                    <span
                      key={`${s.from} ${s.title}`}
                      class={`span ${s.tone}${right - left < 0.3 ? " point" : ""}`}
                      style={{ left: `${left}%`, width: `${Math.max(0, right - left)}%` }}
                      title={`${s.title}: ${s.text}`}
                    >
                      {right - left > 4 && s.title}
                    </span>
                  );
                })}
            </div>
          </div>
        ))}
        <div class="lane scale">
          <span class="label" />
          <div class="track">
            {[0, 0.25, 0.5, 0.75, 1].map((part) => (
              <span key={part} class="tick" style={{ left: `${part * 100}%` }}>
                <Time at={new Date(from + part * whole).toISOString()} />
              </span>
            ))}
          </div>
        </div>
      </div>
      <div class="wide" tabIndex={0} role="group" aria-label="Everything that happened, newest first">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">When</th>
              <th scope="col" class="number">
                Took
              </th>
              <th scope="col">What</th>
              <th scope="col">How it went</th>
            </tr>
          </thead>
          <tbody>
            {[...spans].reverse().map((s) => (
              <tr key={`${s.from} ${s.kind} ${s.title}`}>
                <td class="nowrap">
                  <Time at={s.from} />
                </td>
                <td class="number nowrap">{s.open ? `${duration(between(s.from, end))} so far` : s.until ? duration(between(s.from, s.until)) : ""}</td>
                <td class="nowrap">
                  <span class={`swatch ${s.tone}`} aria-hidden="true" /> {s.title}
                </td>
                <td>{s.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </>
  );
}
