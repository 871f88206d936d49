/** What the user may ask of a job now, and why not. What the commands refuse (cli/views/ending.py) is refused here too. */

import { type Job, type May, type Part, isProblem } from "../types";
import { TERMINAL, phase, wanted } from "./job";

export interface Request {
  id: string;
  label: string;
  /** Why it is not possible now; empty if it is. */
  why: string;
  /** What to confirm, if it cannot be undone. */
  confirm: string;
  /** The command that asks for the same; empty if there is none, or nobody knows. */
  command: string;
}

/** @param may what may be asked of this job; null: that is being read */
export function requests(job: Job, may: Part<May> | null): Request[] {
  const at = phase(job);
  const state = job.spec.state ?? "Running";
  const final = at === "Drained" || at === "Finished";
  const live = !TERMINAL.includes(at);
  const { name } = job.metadata;
  const given = (id: string, label: string, why: string, confirm = ""): Request => {
    const known = may === null || isProblem(may) ? undefined : may.requests[id];
    // If nobody can say, it is asked all the same: then the API server says it.
    const refused = may === null ? "Your permissions are being asked for" : (known?.why ?? "");
    return { id, label, why: why || refused, confirm, command: known?.command ?? "" };
  };
  const draining = state === "Drained" ? (live ? "A drain is not taken back: only a cancel breaks it off" : `It is ${at}`) : "";
  const found = [
    given("savepoint", "Savepoint", at === "Running" ? "" : `Only while it runs; it is ${at}`),
    given("stop", "Stop", draining || (state === "Stopped" && live ? "It is stopping" : live && state !== "Cancelled" ? "" : `It is ${at}`)),
    given("suspend", "Suspend", draining || (!live || state !== "Running" ? `It is ${at}` : job.spec.suspend ? "It is being suspended" : "")),
    given(
      "drain",
      "Drain",
      draining || (final ? `It is ${at}` : ""),
      `${name} emits every open window and ends for good. It cannot be resumed, and a drain is not taken back.`,
    ),
    given("resume", "Resume", final || draining ? `It is ${at}` : wanted(job) === "Running" ? (at === "Failed" || at === "Restarting" ? "Use Restart" : "It is to run already") : ""),
    given(
      "cancel",
      "Cancel",
      !live ? `It is ${at}` : state === "Cancelled" ? "It is being cancelled" : "",
      `The driver of ${name} is killed without a savepoint. A resume continues from Spark's checkpoint; sinks without transactions may get rows of the last batch twice.`,
    ),
  ];
  // The next attempt begins at once, whether one is due or not.
  if (at === "Failed" || at === "Restarting") found.push(given("restart", "Restart", ""));
  return found;
}
