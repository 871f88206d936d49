import { describe, expect, it } from "vitest";
import { ending } from "../src/model/ending";
import type { Status } from "../src/types";
import { job, stage } from "./jobs";

type Task = NonNullable<NonNullable<Status["stages"]>[number]["tasks"]>[number];
const TERMINATION = { requestId: "drain-1-2", mode: "Drain", requestedAt: "2026-11-26T03:00:00Z", deadline: "2026-11-26T03:30:00Z" } as const;

function marks(task: Partial<Task>, more: Partial<Status> = {}, termination: object = {}): string {
  const status = { phase: "Draining", stages: [stage("a", { tasks: [{ index: 0, state: "Running", ...task }] })], termination: { ...TERMINATION, ...termination }, ...more } as Status;
  return ending(job("a", status))!.tasks[0]!.marks.join(" ");
}

describe("where a task is", () => {
  it("runs on while something upstream has not ended", () => expect(marks({})).toBe("ahead ahead ahead ahead ahead ahead"));
  it("waits for its boundary", () => expect(marks({ step: "WaitingForBoundary" })).toBe("now ahead ahead ahead ahead ahead"));
  it("fires its timers", () => expect(marks({ step: "FiringTimers" })).toBe("done now ahead ahead ahead ahead"));
  it("has finished, and waits for its final checkpoint", () => expect(marks({ step: "WritingSavepoint", state: "WaitingForFinalCheckpoint" })).toBe("done done done now ahead ahead"));
  it("waits for the index", () => expect(marks({ step: "WaitingForIndex", state: "WaitingForFinalCheckpoint" })).toBe("done done done done now ahead"));
  it("is closed", () => expect(marks({ state: "Closed" })).toBe("done done done done done done"));
  it("has failed where it was", () => expect(marks({ state: "Failed", step: "FiringTimers" })).toBe("done failed ahead ahead ahead ahead"));
  it("of a driver that reports no steps is at least behind finish()", () =>
    expect(marks({ state: "WaitingForFinalCheckpoint" }, {}, { step: "WaitingForBoundary" })).toBe("done done done now ahead ahead"));
  it("has no timers to fire on a stop", () => expect(marks({ step: "WritingSavepoint", state: "WaitingForFinalCheckpoint" }, { phase: "Stopping" }, { mode: "Stop" })).toBe("done now ahead ahead"));
});

describe("the whole", () => {
  it("says what it waits for, whose move it is, and what the deadline does", () => {
    const status = { phase: "Draining", termination: { ...TERMINATION, step: "WaitingForIndex" } } as Status;
    expect(ending(job("a", status))).toMatchObject({ mover: "the operator", afterDeadline: "then it goes on, and a condition says so", open: true });
    expect(ending(job("a", status, { termination: { escalation: ["Stop", "Cancel"] } }))!.afterDeadline).toBe("then it becomes a stop");
    const stop = { ...status, termination: { ...status.termination!, mode: "Stop" as const } };
    expect(ending(job("a", stop, { termination: { escalation: ["Stop", "Cancel"] } }))!.afterDeadline).toBe("then it becomes a cancel");
    const told = { ...status, termination: { ...status.termination!, progress: "windows: 2 of 3 files" } };
    expect(ending(job("a", told))!.waitsFor).toBe("windows: 2 of 3 files");
  });

  it("is over when the checkpoint is in the index and the phase says so", () => {
    const status = {
      phase: "Drained",
      stages: [stage("a", { tasks: [{ index: 0, state: "WaitingForFinalCheckpoint" }] })],
      termination: { ...TERMINATION, finalCheckpoint: 7 },
      checkpoint: { latest: 7, epoch: 1, completedAt: "2026-11-26T03:02:00Z" },
    } as Status;
    expect(ending(job("a", status))).toMatchObject({ open: false, endedAt: "2026-11-26T03:02:00Z", waitsFor: "" });
    expect(ending(job("a", status))!.tasks[0]!.text).toBe("closed");
  });

  it("is not there without a termination", () => expect(ending(job("a", { phase: "Running" }))).toBeNull());
});
