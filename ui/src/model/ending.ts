/** The life cycle of a stop or drain: where each task is, and what everything waits for. */

import type { Job, Task } from "../types";
import { ENDING, phase } from "./job";

export type Mark = "done" | "now" | "ahead" | "failed";

export interface Step {
  id: string;
  label: string;
  text: string;
}

const BOUNDARY = { id: "boundary", label: "Boundary", text: "The running batch commits, and the query stops there" };
const WATERMARK = { id: "watermark", label: "Max watermark", text: "One more batch with the largest watermark: every window is emitted" };
const FINISH = { id: "finish", label: "Finish", text: "The operators have finished: nothing of this task is left to process" };
const CHECKPOINT = { id: "checkpoint", label: "Final checkpoint", text: "The savepoint is written, its manifest last" };
const INDEX = { id: "index", label: "Index", text: "The controller records the checkpoint: only now has the task ended for good" };
const CLOSED = { id: "closed", label: "Closed", text: "The task is closed, the driver exits" };

export const STOP = [BOUNDARY, CHECKPOINT, INDEX, CLOSED];
export const DRAIN = [BOUNDARY, WATERMARK, FINISH, CHECKPOINT, INDEX, CLOSED];

const AT: Record<string, string> = {
  WaitingForBoundary: "boundary",
  FiringTimers: "watermark",
  WritingSavepoint: "checkpoint",
  WaitingForIndex: "index",
  Closed: "closed",
};

export interface TaskLine {
  stage: string;
  /** The stage, with the number of the shard if there are several. */
  name: string;
  state: string;
  batch: number | null;
  marks: Mark[];
  /** What the task is doing, in words. */
  text: string;
}

export interface Ending {
  mode: string;
  steps: Step[];
  tasks: TaskLine[];
  /** Whether it is still going on. */
  open: boolean;
  /** Null if nobody has noted it. */
  requestedAt: string | null;
  deadline: string | null;
  /** When the final checkpoint was recorded. */
  endedAt: string | null;
  waitsFor: string;
  mover: string;
  afterDeadline: string;
  savepoint: string | null;
  finalCheckpoint: number | null;
  flushedRows: number | null;
  stateRowsLeft: number | null;
}

export function ending(job: Job): Ending | null {
  const t = job.status?.termination;
  if (!t) return null;
  const drains = t.mode === "Drain";
  const steps = drains ? DRAIN : STOP;
  const open = ENDING.includes(phase(job));
  const over = !open && t.finalCheckpoint != null;
  const tasks = (job.status?.stages ?? []).flatMap((stage) =>
    (stage.tasks ?? []).map((task) => {
      const several = (stage.tasks ?? []).length > 1;
      const marks = marked(steps, task, t.step ?? null, over);
      return {
        stage: stage.uid,
        name: several ? `${stage.uid} / ${task.index}` : stage.uid,
        state: task.state,
        batch: task.batch ?? null,
        marks,
        text: words(steps, marks, task, over),
      };
    }),
  );
  return {
    mode: drains ? "Drain" : "Stop",
    steps,
    tasks,
    open,
    requestedAt: t.requestedAt ?? null,
    deadline: t.deadline ?? null,
    endedAt: over ? endedAt(job) : null,
    waitsFor: over ? "" : (t.progress ?? "") || waiting(t.step),
    mover: mover(t.step),
    afterDeadline: afterDeadline(job),
    savepoint: t.savepoint ?? null,
    finalCheckpoint: t.finalCheckpoint ?? null,
    flushedRows: t.flushedRows ?? null,
    stateRowsLeft: t.stateRowsLeft ?? null,
  };
}

function endedAt(job: Job): string | null {
  const latest = job.status?.checkpoint;
  return latest && latest.latest === job.status?.termination?.finalCheckpoint ? latest.completedAt : null;
}

/** A driver of an earlier version does not report steps of tasks: then the job's step, which is the slowest one's. */
function marked(steps: Step[], task: Task, jobStep: string | null, over: boolean): Mark[] {
  if (over || task.state === "Closed") return steps.map(() => "done");
  const failed = task.state === "Failed" || task.state === "Canceled";
  const step = AT[task.step ?? (task.state === "Running" ? "" : (jobStep ?? ""))] ?? null;
  let at = step === null ? -1 : steps.findIndex((s) => s.id === step);
  if (task.state !== "Running" && !failed) at = Math.max(at, steps.findIndex((s) => s.id === "checkpoint"));
  return steps.map((_, i) => (i < at ? "done" : i > at ? "ahead" : failed ? "failed" : "now"));
}

function words(steps: Step[], marks: Mark[], task: Task, over: boolean): string {
  if (over || task.state === "Closed") return "closed";
  if (task.state === "Failed" || task.state === "Canceled") return task.state.toLowerCase();
  const at = marks.indexOf("now");
  return at < 0 ? "runs until everything upstream has ended" : `at: ${steps[at]!.label}`;
}

function waiting(step: string | null | undefined): string {
  switch (step) {
    case "WaitingForBoundary":
      return "the running batch to commit";
    case "FiringTimers":
      return "the batch with the max watermark";
    case "WritingSavepoint":
      return "the savepoint to be written";
    case "WaitingForIndex":
      return "the controller to record the checkpoint in the index";
    case "Closed":
      return "the driver to exit";
    default:
      return "the driver to acknowledge the request";
  }
}

/** Whose move it is. */
function mover(step: string | null | undefined): string {
  return step === "WaitingForIndex" || !step ? "the operator" : "the driver";
}

function afterDeadline(job: Job): string {
  const drains = job.status?.termination?.mode === "Drain";
  const next = (job.spec.termination?.escalation ?? []).find((e) => drains || e === "Cancel");
  return next ? `then it becomes a ${next.toLowerCase()}` : "then it goes on, and a condition says so";
}
