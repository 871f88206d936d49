/** The stages of a job, what they read from each other, their tasks and operators. */

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { bytes, count, duration } from "../model/format";
import { type Placed, draw, path, shown } from "../model/graph";
import { largest, runs, stages, sum } from "../model/job";
import type { Job, Stage, Task } from "../types";
import { Empty, Panel, Wide } from "./parts";

const TASKS = 48; // of a stage that are drawn
const narrow = matchMedia("(max-width: 720px)");
const down = signal(narrow.matches);
narrow.addEventListener("change", () => (down.value = narrow.matches));

/** The stage whose figures the charts show in detail. */
export const chosen = signal<string | null>(null);

const STATES: Record<string, string> = {
  Running: "running",
  WaitingForFinalCheckpoint: "waits for its final checkpoint",
  Finished: "finished",
  Closed: "closed",
  Failed: "failed",
  Canceled: "cancelled",
};

export function StageGraph({ job }: { job: Job }) {
  const found = stages(job);
  // The layout depends on the edges and the sizes only: figures change every few seconds.
  const shape = JSON.stringify(found.map((s) => [s.uid, s.upstream, s.tasks?.length, s.operators?.length]));
  const layout = useMemo(() => draw(found, down.value), [shape, down.value]);
  const live = runs(job);
  return (
    <Panel
      id="graph"
      title="Stages"
      aside={
        <span class="legend faint">
          {Object.entries(STATES).map(([state, words]) =>
            found.some((s) => s.tasks?.some((t) => t.state === state)) ? (
              <span key={state}>
                <span class={`task ${state}`} aria-hidden="true" /> {words}
              </span>
            ) : null,
          )}
        </span>
      }
    >
      {found.length === 0 ? (
        <Empty>No query has been started yet.</Empty>
      ) : (
        <Wide label="Graph of the stages">
          <div class="graph" style={{ width: `${layout.width}px`, height: `${layout.height}px` }}>
            <svg width={layout.width} height={layout.height} aria-hidden="true">
              <defs>
                <marker id="arrow" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" orient="auto">
                  <path d="M0 0.5 L7.5 4 L0 7.5" class="head" />
                </marker>
              </defs>
              {layout.edges.map((edge) => (
                <path key={`${edge.from} ${edge.to}`} d={path(edge.points)} class="edge" marker-end="url(#arrow)" />
              ))}
            </svg>
            <ul>
              {layout.nodes.map((placed, i) => (
                <Box key={placed.stage.uid} placed={placed} stage={found[i]!} live={live} />
              ))}
            </ul>
          </div>
        </Wide>
      )}
    </Panel>
  );
}

function Box({ placed, stage, live }: { placed: Placed; stage: Stage; live: boolean }) {
  const lag = largest((stage.sources ?? []).map((s) => s.lagSeconds));
  const lagRows = sum((stage.sources ?? []).map((s) => s.lagRows));
  const tasks = stage.tasks ?? [];
  const operators = stage.operators ?? [];
  const on = chosen.value === stage.uid;
  const { x, y, width, height } = placed;
  return (
    <li class={`stage${on ? " on" : ""}`} style={{ left: `${x}px`, top: `${y}px`, width: `${width}px`, height: `${height}px` }}>
      <button class="title" aria-pressed={on} title={`${stage.uid}: show its figures in the charts`} onClick={() => (chosen.value = on ? null : stage.uid)}>
        <strong>{stage.uid}</strong>
        <span class="faint">{stage.batch == null ? "no batch yet" : `batch ${stage.batch}`}</span>
      </button>
      <p class="figures">
        {live ? (
          <>
            <span title="Rows read per second">{count(stage.inputRowsPerSecond)} rows/s</span>
            <span title="Lag: age of the oldest input that is not committed">lag {lag !== null ? duration(lag) : lagRows !== null ? count(lagRows) : "–"}</span>
            <span title="Memory of the state">{stage.stateBytes ? bytes(stage.stateBytes) : stage.stateRows ? `${count(stage.stateRows)} rows` : ""}</span>
          </>
        ) : (
          <span>as it was reported last</span>
        )}
      </p>
      {stage.upstream?.length ? <p class="sr">Reads from {stage.upstream.join(", ")}</p> : null}
      {tasks.length > 0 && (
        <div class="tasks" role="img" aria-label={summary(tasks)}>
          {tasks.slice(0, TASKS).map((task) => (
            <span key={task.index} class={`task ${task.state}`} title={`Task ${task.index}: ${STATES[task.state] ?? task.state}, batch ${task.batch ?? "none"}`} />
          ))}
          {tasks.length > TASKS && <span class="faint">+{tasks.length - TASKS}</span>}
        </div>
      )}
      {operators.length > 0 && (
        <ul class="operators">
          {shown(stage).map((o) => (
            <li key={o.uid} class={o.finished ? "finished" : ""} title={`${o.kind} ${o.name} (${o.uid}): ${o.finished ? "finished" : "not finished"}`}>
              <span class="kind">{o.kind}</span> <span class="of">{o.name}</span>
              {o.finished && (
                <span class="flag" aria-label="finished">
                  ✓
                </span>
              )}
            </li>
          ))}
        </ul>
      )}
    </li>
  );
}

function summary(tasks: Task[]): string {
  const found = new Map<string, number>();
  for (const t of tasks) found.set(t.state, (found.get(t.state) ?? 0) + 1);
  return `Tasks: ${[...found].map(([state, n]) => `${n} ${STATES[state] ?? state}`).join(", ")}`;
}
