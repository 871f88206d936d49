/** A stop or drain as it happens: a line for each task, a column for each step of its end. */

import { between, count, duration } from "../model/format";
import { type Mark, ending } from "../model/ending";
import { now } from "../store";
import type { Job } from "../types";
import { Facts, Panel, Time, Wide } from "./parts";

const WORDS: Record<Mark, string> = { done: "done", now: "now", ahead: "to come", failed: "failed" };
const SIGNS: Record<Mark, string> = { done: "✓", now: "", ahead: "", failed: "✕" };

export function Life({ job }: { job: Job }) {
  const e = ending(job);
  if (!e) return null;
  const took = between(e.requestedAt, e.endedAt ?? (e.open ? now.value : null));
  const left = between(new Date(now.value).toISOString(), e.deadline);
  return (
    <Panel
      id="life"
      title={e.open ? `${e.mode} in progress` : `Last ${e.mode.toLowerCase()}`}
      aside={
        <>
          {took !== null && <span class="figure">{duration(e.open ? Math.floor(took) : took)}</span>}
          {e.open && left !== null && (
            <span class={left < 0 ? "late" : "faint"}>
              {left < 0 ? `deadline passed ${duration(Math.floor(-left))} ago` : `${duration(Math.floor(left))} to the deadline`}, {e.afterDeadline}
            </span>
          )}
        </>
      }
    >
      {e.open && (
        <p class="waits" role="status">
          Waits for {e.mover}: <strong>{e.waitsFor}</strong>
        </p>
      )}
      {(e.open || e.tasks.some((t) => t.marks.includes("failed"))) && (
        <Wide label="Steps of each task">
          <table class="life">
            <thead>
              <tr>
                <th scope="col">Task</th>
                {e.steps.map((step) => (
                  <th scope="col" key={step.id} title={step.text}>
                    {step.label}
                  </th>
                ))}
                <th scope="col" class="number">
                  Batch
                </th>
              </tr>
            </thead>
            <tbody>
              {e.tasks.map((task) => (
                <tr key={task.name}>
                  <th scope="row" title={task.text}>
                    {task.name}
                  </th>
                  {task.marks.map((mark, i) => (
                    <td key={e.steps[i]!.id} class={`step ${mark}`}>
                      <span class="line" aria-hidden="true" />
                      <span class="knot" aria-hidden="true">
                        {SIGNS[mark]}
                      </span>
                      <span class="sr">{WORDS[mark]}</span>
                    </td>
                  ))}
                  <td class="number">{task.batch ?? "–"}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
      <Facts
        facts={[
          ["Requested", e.requestedAt && <Time at={e.requestedAt} />],
          ["Final checkpoint", e.finalCheckpoint],
          ["Rows emitted by timers", e.flushedRows === null ? null : count(e.flushedRows)],
          ["Rows left in state", e.stateRowsLeft === null ? null : count(e.stateRowsLeft)],
          ["Savepoint", e.savepoint && <code>{e.savepoint}</code>],
        ]}
      />
    </Panel>
  );
}
