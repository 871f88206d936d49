/** What is wrong with a job, worst first, with what to do about it. */

import type { Details, Job } from "../types";
import { isProblem } from "../types";
import { condition, phase } from "./job";

export interface Finding {
  severity: "bad" | "warn" | "note";
  reason: string;
  message: string;
  remedy: string;
  time: string | null;
}

export function problems(job: Job, details: Details | null): Finding[] {
  const found: Finding[] = [];
  const s = job.status;
  const error = s?.lastError;
  for (const [type, severity] of [
    ["Stalled", "bad"],
    ["Degraded", "warn"],
  ] as const) {
    const c = condition(job, type);
    if (c?.status === "True") {
      const same = error?.reason === c.reason;
      found.push({ severity, reason: c.reason, message: same ? error.message : c.message, remedy: same ? error.remedy ?? "" : "", time: c.lastTransitionTime });
    }
  }
  if (error && !found.some((f) => f.reason === error.reason)) {
    const over = recovered(job, error); // what it says to do has been done, or was not needed
    const severity = over || s?.phase === "Running" ? "note" : "bad";
    found.push({ severity, reason: error.reason, message: over ? `Is over: ${error.message}` : error.message, remedy: over ? "" : error.remedy ?? "", time: error.time });
  }
  const before = failedBefore(job); // the last error may be newer: what the next driver waits for
  if (before && !found.some((f) => f.reason === before.reason)) {
    found.push({ severity: "bad", reason: before.reason, message: `The driver before has failed: ${before.message}`, remedy: before.remedy ?? "", time: before.time });
  }
  const upgrade = s?.upgrade;
  if (upgrade?.step === "RolledBack" && upgrade.error) {
    const { reason, message, remedy, time } = upgrade.error;
    if (!found.some((f) => f.message === message)) {
      found.push({ severity: "warn", reason, message: `The upgrade was rolled back: ${message}`, remedy: remedy ?? "", time });
    }
  }
  if (s?.escalation) {
    const { mode, waitedFor, since } = s.escalation;
    found.push({ severity: "warn", reason: "Escalated", message: `The timeout passed while it waited for: ${waitedFor}`, remedy: `It has become a ${mode}`, time: since });
  }
  if (s?.savepointRequest?.failure) {
    const { failure, requestedAt } = s.savepointRequest;
    found.push({ severity: "warn", reason: "SavepointAborted", message: failure, remedy: "The job itself is unaffected", time: requestedAt });
  }
  for (const w of s?.warnings ?? []) found.push({ severity: "warn", reason: w.reason, message: w.message, remedy: "", time: null });
  if (s?.abortedCheckpoint && phase(job) === "Running" && s.abortedCheckpoint.checkpoint > (s.checkpoint?.latest ?? 0)) {
    const { reason, time, checkpoint } = s.abortedCheckpoint;
    found.push({ severity: "warn", reason: "CheckpointAborted", message: `Checkpoint ${checkpoint}: ${reason}`, remedy: "The next one is tried at the next interval", time });
  }
  for (const [name, part] of Object.entries(details ?? {})) {
    if (isProblem(part)) found.push({ severity: "note", reason: `Not readable: ${name}`, message: part.problem, remedy: "", time: null });
  }
  const order = { bad: 0, warn: 1, note: 2 };
  return found.sort((a, b) => order[a.severity] - order[b.severity]);
}

/** Whether the job was ready, or has completed a checkpoint, since its last error: as the command's `status` has it. */
function recovered(job: Job, error: NonNullable<NonNullable<Job["status"]>["lastError"]>): boolean {
  const ready = condition(job, "Ready");
  const s = job.status;
  if (ready?.status === "True") return true;
  const at = phase(job);
  if (at === "Restarting" || at === "Failed" || ready?.message.includes(error.message.replace(/[. \n]+$/, ""))) return false;
  if (at === "Pending" || at === "Starting") return failedBefore(job)?.reason !== error.reason; // Ready does not say it
  return [ready?.lastTransitionTime, s?.checkpoint?.completedAt].some((time) => time && Date.parse(time) > Date.parse(error.time));
}

/** Why the driver before the one that starts has failed. */
function failedBefore(job: Job): NonNullable<Job["status"]>["lastError"] {
  const s = job.status;
  const at = phase(job);
  const { error, epoch, count } = s?.restarts ?? {};
  if (!(at === "Pending" || at === "Starting") || !count || epoch !== (s?.epoch ?? 0) - 1) return undefined;
  return error ?? (condition(job, "Stalled")?.status === "True" ? undefined : s?.lastError);
}
