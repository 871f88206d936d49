/** Epochs, stops, savepoints, upgrades and failures over the life of the job: drawn, and as a list. */

import { between, duration } from "../model/format";
import { details, now } from "../store";
import { type Entry, isProblem } from "../types";
import { Empty, Panel, Time, Wide } from "./parts";

const LANES: [string[], string][] = [
  [["epoch"], "Epochs"],
  [["stop", "drain", "suspension", "escalation"], "Stops, drains"],
  [["savepoint"], "Savepoints"],
  [["upgrade"], "Upgrades"],
  [["failure"], "Failures"],
];
const TONES = { ok: "good", failed: "bad", going: "busy", "": "neutral" };
const WORDS = { ok: "well", failed: "failed", going: "goes on", "": "" };

export function Timeline() {
  const found = details.value?.timeline;
  return (
    <Panel id="timeline" title="Timeline" aside={<span class="faint">what is no longer on record is missing</span>}>
      {found === undefined ? (
        <Empty>Reading…</Empty>
      ) : isProblem(found) ? (
        <Empty>{found.problem}</Empty>
      ) : found.length === 0 ? (
        <Empty>Nothing has happened yet.</Empty>
      ) : (
        <Drawn entries={found} />
      )}
    </Panel>
  );
}

function Drawn({ entries }: { entries: Entry[] }) {
  const end = now.value;
  const times = entries.flatMap((e) => [e.from, e.until]).filter((t): t is string => t !== null);
  const from = Math.min(end - 60_000, ...times.map((t) => Date.parse(t)));
  const whole = Math.max(1, end - from);
  const percent = (time: number) => ((time - from) / whole) * 100;
  const lanes = LANES.filter(([kinds]) => entries.some((e) => kinds.includes(e.kind)));
  return (
    <>
      <div class="lanes" aria-hidden="true">
        {lanes.map(([kinds, label]) => (
          <div class="lane" key={label}>
            <span class="label">{label}</span>
            <div class="track">{entries.filter((e) => kinds.includes(e.kind)).map((e, i) => <Bar key={i} entry={e} percent={percent} end={end} />)}</div>
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
      <Wide label="Everything that happened, newest first">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Began</th>
              <th scope="col">Ended</th>
              <th scope="col" class="number">
                Took
              </th>
              <th scope="col">What</th>
              <th scope="col">How it went</th>
            </tr>
          </thead>
          <tbody>
            {[...entries].reverse().map((e, i) => (
              <tr key={i}>
                <td class="nowrap">
                  <Time at={e.from} />
                </td>
                <td class="nowrap">
                  <Time at={e.until} />
                </td>
                <td class="number nowrap">{e.outcome === "going" ? `${duration(Math.floor(between(e.from, end) ?? 0))} so far` : e.from && e.until ? duration(between(e.from, e.until)) : ""}</td>
                <td class="nowrap">
                  <span class={`swatch ${TONES[e.outcome]}`} aria-hidden="true" /> {e.title}
                  <span class="sr"> {WORDS[e.outcome]}</span>
                </td>
                <td>{e.text}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </Wide>
    </>
  );
}

function Bar({ entry: e, percent, end }: { entry: Entry; percent: (time: number) => number; end: number }) {
  const first = e.from ?? e.until;
  if (first === null) return null;
  const left = percent(Date.parse(first));
  const right = percent(e.outcome === "going" ? end : Date.parse(e.until ?? first));
  const point = right - left < 0.4;
  return (
    <span class={`span ${TONES[e.outcome]}${point ? " point" : ""}`} style={{ left: `${left}%`, width: `${Math.max(0, right - left)}%` }} title={`${e.title}: ${e.text}`}>
      {right - left > 5 && e.title}
    </span>
  );
}
