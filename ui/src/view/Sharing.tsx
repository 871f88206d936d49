/** Savepoints with their sizes: what each has alone, and what it shares with others. */

import { useSignal } from "@preact/signals";
import { bytes, last } from "../model/format";
import { type Listed, readSavepoints } from "../requested";
import { Refused } from "../session";
import type { Checkpoint, Job } from "../types";
import { Time, Wide } from "./parts";

export function Sharing({ job, kept }: { job: Job; kept: Checkpoint[] }) {
  const listed = useSignal<Listed[] | null>(null);
  const state = useSignal<"" | "reading" | { message: string; remedy: string }>("");
  const measure = async () => {
    state.value = "reading";
    try {
      listed.value = await readSavepoints(job);
      state.value = "";
    } catch (e) {
      state.value = { message: e instanceof Error ? e.message : String(e), remedy: e instanceof Refused ? e.remedy : "" };
    }
  };
  const known = new Map((listed.value ?? []).map((s) => [last(s.uri), s]));
  const largest = Math.max(1, ...[...known.values()].map((s) => s.size ?? 0));
  return (
    <>
      <Wide label="Savepoints, newest first">
        <table class="plain">
          <thead>
            <tr>
              <th scope="col">Savepoint</th>
              <th scope="col" class="number">
                Checkpoint
              </th>
              <th scope="col">Completed</th>
              <th scope="col">Ended the job by</th>
              {listed.value && (
                <>
                  <th scope="col" class="number">
                    Size
                  </th>
                  <th scope="col">
                    <span class="swatch own" aria-hidden="true" /> its own <span class="swatch shared" aria-hidden="true" /> shared with others
                  </th>
                </>
              )}
            </tr>
          </thead>
          <tbody>
            {kept.map((c) => {
              const s = known.get(last(c.savepoint!));
              return (
                <tr key={c.checkpoint}>
                  <td>
                    <code title={c.savepoint!}>{last(c.savepoint!)}</code>
                  </td>
                  <td class="number">{c.checkpoint}</td>
                  <td class="nowrap">
                    <Time at={c.completed_at} />
                  </td>
                  <td>{c.scenario ?? "it kept running"}</td>
                  {listed.value && (
                    <>
                      <td class="number nowrap">{bytes(s?.size)}</td>
                      <td>{s ? <Bar saved={s} largest={largest} /> : <span class="faint">not found in the folder</span>}</td>
                    </>
                  )}
                </tr>
              );
            })}
          </tbody>
        </table>
      </Wide>
      <p class="measure">
        <button aria-disabled={state.value === "reading"} onClick={() => state.value !== "reading" && void measure()}>
          {state.value === "reading" ? "Reading the storage…" : "Read sizes and what they share"}
        </button>{" "}
        <span class="faint">takes some seconds, beside the driver</span>
      </p>
      {typeof state.value === "object" && (
        <div class="finding warn" role="alert">
          <p>{state.value.message}</p>
          {state.value.remedy && <p class="remedy">{state.value.remedy}</p>}
        </div>
      )}
    </>
  );
}

function Bar({ saved, largest }: { saved: Listed; largest: number }) {
  if (saved.problem) return <span class="late">{saved.problem}</span>;
  const size = saved.size ?? 0;
  const own = saved.own ?? 0;
  const of = (n: number) => `${(n / largest) * 100}%`;
  return (
    <span class="sharing" role="img" aria-label={`${bytes(own)} of its own, ${bytes(size - own)} shared`} title={`${bytes(own)} of its own, ${bytes(size - own)} shared`}>
      <span class="own" style={{ width: of(own) }} />
      <span class="shared" style={{ width: of(size - own) }} />
    </span>
  );
}
