import { problems } from "../model/problems";
import { details } from "../store";
import type { Job } from "../types";
import { Time } from "./parts";

const NAMES = { bad: "Needs you", warn: "Warning", note: "Note" };

/** What is wrong and what to do, before everything else. */
export function Problems({ job }: { job: Job }) {
  const found = problems(job, details.value);
  if (found.length === 0) return null;
  return (
    <ul class="findings" aria-label="Problems and warnings">
      {found.map((f) => (
        <li key={`${f.reason} ${f.message}`} class={`finding ${f.severity}`}>
          <p class="reason">
            <span class="mark">{NAMES[f.severity]}</span> <strong>{f.reason}</strong> {f.time && <Time at={f.time} />}
          </p>
          <p>{f.message}</p>
          {f.remedy && (
            <p class="remedy">
              <span class="what">What to do:</span> {f.remedy}
            </p>
          )}
        </li>
      ))}
    </ul>
  );
}
