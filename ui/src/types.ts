import type { Spec, Status } from "./generated";

export type { Spec, Status };
export type Stage = NonNullable<Status["stages"]>[number];
export type Task = NonNullable<Stage["tasks"]>[number];
export type Condition = NonNullable<Status["conditions"]>[number];

/** A StreamJob as the API server has it. */
export interface Job {
  metadata: {
    uid: string;
    name: string;
    namespace: string;
    generation: number;
    resourceVersion?: string;
    creationTimestamp?: string;
    deletionTimestamp?: string;
  };
  spec: Spec;
  status?: Status;
}

/** What the server cannot do, or the API server does not allow. */
export interface Problem {
  message: string;
  remedy: string;
}

export interface Change {
  jobs: Job[];
  deleted: string[];
  problem: Problem | null;
  /** What there is to say if there are no jobs. */
  nothing: string;
  /** Whether this is all that there is at the moment. */
  complete: boolean;
}

export interface TaskRecord {
  index: number;
  location: string;
  batch: number | null;
  finished?: boolean;
}

export interface StageRecord {
  uid: string;
  tasks: TaskRecord[];
  operators: { uid: string; kind: string; name: string; finished: boolean }[];
}

/** A checkpoint in the index. */
export interface Checkpoint {
  checkpoint: number;
  epoch: number;
  scenario: string | null;
  request_id: string | null;
  savepoint: string | null;
  completed_at: string;
  stages: StageRecord[];
}

export interface Index {
  checkpoints: Checkpoint[];
  deleted: { savepoint: string; checkpoint: number; at: string | null }[];
}

export interface Event {
  type: string;
  reason: string;
  message: string;
  /** The pod, empty if it is about the job. */
  about: string;
  time: string | null;
  count: number;
}

export interface Pod {
  name: string;
  component: string;
  epoch: number | null;
  phase: string;
  reason: string;
  node: string;
  startedAt: string | null;
  endedAt: string | null;
  code: number | null;
}

export interface Difference {
  field: string;
  runs: string | null;
  wanted: string | null;
}

/** Something that happened. A time that nobody knows any more is null; `going`: it has no end yet. */
export interface Entry {
  kind: string;
  title: string;
  text: string;
  outcome: "ok" | "failed" | "going" | "";
  from: string | null;
  until: string | null;
  epoch: number | null;
}

/** A part that could not be read is its problem. */
export type Part<T> = T | { problem: string };

/** What may be asked of a job, whatever it does at the moment. */
export interface May {
  note: string;
  /** By request: why it may not be asked, empty if it may; and the command that asks for the same. */
  requests: Record<string, { why: string; command: string }>;
}

/** Events and pods are missing for a job that has none because it runs without Kubernetes. */
export interface Details {
  index: Part<Index>;
  events?: Part<Event[]>;
  pods?: Part<{ pods: Pod[]; upgrade: Part<Difference[] | null> }>;
  timeline: Part<Entry[]>;
}

export type Severity = "error" | "warning" | "note";

/** What `diagnose` says. */
export interface Diagnosis {
  at: string;
  /** The command that says the same. */
  command: string;
  findings: {
    severity: Severity;
    reason: string;
    what: string;
    evidence: { where: string; text: string }[];
    remedy: string;
    /** Whose move it is; empty if nobody's. */
    mover: string;
  }[];
}

export type Figures = Partial<Record<FigureName, number>> & { batchSeconds?: Record<string, number> };
export type FigureName =
  | "inputRowsPerSecond"
  | "processedRowsPerSecond"
  | "stateRows"
  | "stateBytes"
  | "watermarkDelaySeconds"
  | "lagRows"
  | "lagFiles"
  | "lagBytes"
  | "lagSeconds";
/** Seconds since 1970, and the figures at that time; none while no driver ran. */
export type Sample = [number, Figures];
export type Samples = Record<string, Sample[]>;

export function isProblem(part: unknown): part is { problem: string } {
  return typeof part === "object" && part !== null && "problem" in part;
}
