/** The index: checkpoints, savepoints, and which stages had finished. */

import { between, duration, last } from "../model/format";
import { details, now } from "../store";
import { type Checkpoint, type Index, type Job, isProblem } from "../types";
import { Empty, Facts, Panel, Time, Wide } from "./parts";
import { Sharing } from "./Sharing";

export function Checkpoints({ job }: { job: Job }) {
  const index = details.value?.index;
  const pending = job.status?.savepointRequest;
  const running = pending && pending.checkpoint == null && !pending.failure;
  return (
    <>
      <Panel id="savepoints" title="Savepoints" aside={job.status?.nextSavepointAt && <>next one <Time at={job.status.nextSavepointAt} /></>}>
        {running && (
          <p class="waits" role="status">
            A savepoint is being taken: <strong>{pending.progress || "requested"}</strong>, for {duration(between(pending.requestedAt, now.value))}
          </p>
        )}
        {index === undefined ? <Empty>Reading…</Empty> : isProblem(index) ? <Empty>{index.problem}</Empty> : <Savepoints index={index} job={job} />}
      </Panel>
      <Panel id="checkpoints" title="Checkpoint index">
        {index === undefined ? <Empty>Reading…</Empty> : isProblem(index) ? <Empty>{index.problem}</Empty> : <Records index={index} />}
      </Panel>
    </>
  );
}

function Savepoints({ index, job }: { index: Index; job: Job }) {
  const kept = index.checkpoints.filter((c) => c.savepoint).reverse();
  if (kept.length === 0) return <Empty>There is none yet. Every stop and drain writes one.</Empty>;
  return (
    <>
      <Sharing job={job} kept={kept} />
      <Facts facts={[["Deleted", index.deleted.length ? index.deleted.map((d) => `${last(d.savepoint)}${d.at ? "" : " (pending)"}`).join(", ") : null]]} />
    </>
  );
}

function Records({ index }: { index: Index }) {
  const all = [...index.checkpoints].reverse();
  if (all.length === 0) return <Empty>No checkpoint has completed yet.</Empty>;
  const stages = [...new Set(all.flatMap((c) => c.stages.map((s) => s.uid)))];
  return (
    <Wide label="Checkpoints, newest first">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col" class="number">
              No.
            </th>
            <th scope="col" class="number">
              Epoch
            </th>
            <th scope="col">Completed</th>
            <th scope="col">Ended by</th>
            <th scope="col">Savepoint</th>
            {stages.map((uid) => (
              <th scope="col" key={uid} class="number" title={`Last batch of ${uid}; ✓: finished`}>
                {uid}
              </th>
            ))}
          </tr>
        </thead>
        <tbody>
          {all.map((c) => (
            <tr key={c.checkpoint}>
              <td class="number">{c.checkpoint}</td>
              <td class="number">{c.epoch}</td>
              <td class="nowrap">
                <Time at={c.completed_at} />
              </td>
              <td>{c.scenario ?? ""}</td>
              <td>{c.savepoint ? <code title={c.savepoint}>{last(c.savepoint)}</code> : ""}</td>
              {stages.map((uid) => (
                <td key={uid} class="number">
                  <Cell checkpoint={c} uid={uid} />
                </td>
              ))}
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

function Cell({ checkpoint, uid }: { checkpoint: Checkpoint; uid: string }) {
  const stage = checkpoint.stages.find((s) => s.uid === uid);
  if (!stage) return <span class="faint">–</span>;
  const batches = stage.tasks.map((t) => t.batch).filter((b): b is number => b !== null);
  const finished = stage.tasks.length > 0 && stage.tasks.every((t) => t.finished);
  const partly = !finished && stage.tasks.some((t) => t.finished);
  const text = batches.length === 0 ? "none" : Math.min(...batches) === Math.max(...batches) ? `${batches[0]}` : `${Math.min(...batches)}–${Math.max(...batches)}`;
  return (
    <>
      {text}
      {finished && (
        <span class="flag" aria-label="finished">
          {" "}
          ✓
        </span>
      )}
      {partly && <span class="faint"> {stage.tasks.filter((t) => t.finished).length} finished</span>}
    </>
  );
}
