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
    resourceVersion: string;
    creationTimestamp: string;
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
  time: string | null;
  count: number;
}

export interface Pod {
  name: string;
  component: string;
  epoch: string | null;
  phase: string;
  reason: string;
  node: string;
  startedAt: string | null;
  restarts: number;
}

export interface Difference {
  field: string;
  runs: string | null;
  wanted: string | null;
}

/** Something that took time, or happened at one moment (`until` is null and `open` false). */
export interface Span {
  kind: "Epoch" | "Termination" | "Savepoint" | "Upgrade" | "Failure";
  title: string;
  text: string;
  from: string;
  until: string | null;
  open: boolean;
  tone: "plain" | "good" | "bad" | "busy";
}

/** A part that could not be read is its problem. */
export type Part<T> = T | { problem: string };

export interface Details {
  index: Part<Index>;
  events: Part<Event[]>;
  pods: Part<{ pods: Pod[]; upgrade: Difference[] | null }>;
  may: Part<{ change: boolean }>;
  timeline: Part<Span[]>;
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
