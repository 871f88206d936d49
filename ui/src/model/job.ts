/** What the list shows of a job, and what is true of it. */

import type { Condition, Job, Stage } from "../types";
import { between, duration } from "./format";

export type Tone = "good" | "busy" | "warn" | "bad" | "rest";

const TONES: Record<string, Tone> = {
  Pending: "busy",
  Starting: "busy",
  Running: "good",
  Stopping: "busy",
  Draining: "busy",
  Cancelling: "busy",
  Deleting: "busy",
  Restarting: "warn",
  Failed: "bad",
};
export const TERMINAL = ["Stopped", "Drained", "Finished", "Cancelled", "Suspended", "Failed"];
export const ENDING = ["Stopping", "Draining"];

export function phase(job: Job): string {
  return job.metadata.deletionTimestamp ? "Deleting" : (job.status?.phase ?? "Pending");
}

/** Failures in a row up to now, of a job that is about to start again after the last of them: a crash loop. */
export function failures(job: Job): number {
  const { count, epoch } = job.status?.restarts ?? {};
  const at = phase(job);
  const starts = at === "Restarting" || ((at === "Pending" || at === "Starting") && epoch === (job.status?.epoch ?? 0) - 1);
  return starts ? (count ?? 0) : 0;
}

export function tone(job: Job): Tone {
  const failed = failures(job);
  const known = failed > 1 ? "bad" : failed ? "warn" : toneOf(phase(job));
  if (known === "bad" || condition(job, "Stalled")?.status === "True") return "bad";
  return condition(job, "Degraded")?.status === "True" ? "warn" : known;
}

export function toneOf(phase: string): Tone {
  return TONES[phase] ?? "rest";
}

/** The state that the spec asks for. */
export function wanted(job: Job): string {
  const state = job.spec.state ?? "Running";
  return state === "Running" && job.spec.suspend ? "Suspended" : state;
}

export function condition(job: Job, type: string): Condition | undefined {
  return job.status?.conditions?.find((c) => c.type === type);
}

/** What the operator says of the job, in one sentence. */
export function message(job: Job): string {
  if (ENDING.includes(phase(job)) && job.status?.termination?.progress) return job.status.termination.progress;
  return condition(job, "Ready")?.message ?? "";
}

/** How long the job has been ready, or not: `ready for 2 s`. Empty if that is not known. */
export function lasting(job: Job, now: number): string {
  const ready = condition(job, "Ready");
  const seconds = between(ready?.lastTransitionTime, now);
  return seconds === null ? "" : `${ready!.status === "True" ? "ready" : "not ready"} for ${duration(Math.floor(seconds))}`;
}

export interface Row {
  job: Job;
  uid: string;
  namespace: string;
  name: string;
  phase: string;
  tone: Tone;
  wanted: string;
  message: string;
  rows: number | null;
  lagRows: number | null;
  lagSeconds: number | null;
  batch: number | null;
  restarts: number;
  epoch: number;
  checkpoint: string | null;
  since: string | null;
  text: string;
}

const rows = new WeakMap<Job, Row>();

/** Made once for each state of a job: an update of one job costs one row. */
export function row(job: Job): Row {
  const known = rows.get(job);
  if (known) return known;
  const stages = runs(job) ? (job.status?.stages ?? []) : [];
  const sources = stages.flatMap((s) => s.sources ?? []);
  const made: Row = {
    job,
    uid: job.metadata.uid,
    namespace: job.metadata.namespace,
    name: job.metadata.name,
    phase: phase(job),
    tone: tone(job),
    wanted: wanted(job),
    message: message(job),
    rows: sum(stages.map((s) => s.inputRowsPerSecond)),
    lagRows: sum(sources.map((s) => s.lagRows)),
    lagSeconds: largest(sources.map((s) => s.lagSeconds)),
    batch: largest(stages.map((s) => s.batchSeconds?.["triggerExecution"])),
    restarts: job.status?.restarts?.count ?? 0,
    epoch: job.status?.epoch ?? 0,
    checkpoint: job.status?.checkpoint?.completedAt ?? null,
    since: condition(job, "Ready")?.lastTransitionTime ?? job.metadata.creationTimestamp ?? null,
    text: [job.metadata.namespace, job.metadata.name, phase(job), wanted(job), job.spec.image].join(" ").toLowerCase(),
  };
  rows.set(job, made);
  return made;
}

/** Whether a driver runs: figures of a job without one are those of the past. */
export function runs(job: Job): boolean {
  const driver = job.status?.driver;
  return ["Running", ...ENDING].includes(phase(job)) && (!driver || (driver.phase ?? "") === "Running");
}

export function sum(values: (number | null | undefined)[]): number | null {
  const known = values.filter((v): v is number => typeof v === "number");
  return known.length ? known.reduce((a, b) => a + b, 0) : null;
}

export function largest(values: (number | null | undefined)[]): number | null {
  const known = values.filter((v): v is number => typeof v === "number");
  return known.length ? Math.max(...known) : null;
}

/** How many executors there are, and how their number follows the load; empty if everything runs in the driver. */
export function executors(job: Job): string {
  const { executors: there, autoscale } = job.status ?? {};
  if (!there) return "";
  const few = `${there.running} of ${there.wanted} ${there.wanted === 1 ? "executor" : "executors"}`;
  if (!autoscale) return few;
  const limit = autoscale.limitedBy ? `, limited by ${autoscale.limitedBy}` : "";
  return `${few} · autoscale to ${autoscale.desired}${limit}: ${autoscale.reason}`;
}

export function stages(job: Job): Stage[] {
  return job.status?.stages ?? [];
}

export type Column = "name" | "phase" | "rows" | "lag" | "batch" | "restarts" | "epoch" | "checkpoint" | "since";
export interface Order {
  column: Column;
  down: boolean;
}

// What needs a person comes first.
const URGENCY: Record<Tone, number> = { bad: 0, warn: 1, busy: 2, good: 3, rest: 4 };
const KEYS: Record<Column, (r: Row) => string | number | null> = {
  name: (r) => `${r.namespace}/${r.name}`,
  phase: (r) => URGENCY[r.tone],
  rows: (r) => r.rows,
  lag: (r) => r.lagSeconds ?? r.lagRows,
  batch: (r) => r.batch,
  restarts: (r) => r.restarts,
  epoch: (r) => r.epoch,
  checkpoint: (r) => r.checkpoint,
  since: (r) => r.since,
};

/** Filtered by words, of which each has to occur, and sorted. What is not known comes last. */
export function arrange(all: Iterable<Job>, filter: string, phases: ReadonlySet<string>, order: Order): Row[] {
  const words = filter.toLowerCase().split(/\s+/).filter(Boolean);
  const found: Row[] = [];
  for (const job of all) {
    const r = row(job);
    if ((phases.size === 0 || phases.has(r.phase)) && words.every((word) => r.text.includes(word))) found.push(r);
  }
  const key = KEYS[order.column];
  const sign = order.down ? -1 : 1;
  return found.sort((a, b) => compare(key(a), key(b), sign) || (a.name < b.name ? -1 : a.name > b.name ? 1 : 0));
}

function compare(a: string | number | null, b: string | number | null, sign: number): number {
  if (a === b) return 0;
  if (a === null) return 1;
  if (b === null) return -1;
  return a < b ? -sign : sign;
}
