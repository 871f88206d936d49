import { describe, expect, it } from "vitest";
import { draw } from "../src/model/graph";
import { problems } from "../src/model/problems";
import { requests } from "../src/model/requests";
import { taken } from "../src/model/savepoint";
import { alone, byStage, figure, stacked } from "../src/model/series";
import { Messages } from "../src/stream";
import type { May, Samples } from "../src/types";
import { yaml } from "../src/view/Configuration";
import { condition, job, stage } from "./jobs";
import refused from "./refused.json";

describe("the graph", () => {
  it("puts a stage behind what it reads from, and no box upon another", () => {
    const stages = [stage("c", { upstream: ["a", "b"] }), stage("a"), stage("b"), stage("d", { upstream: ["c", "notStartedYet"] })];
    const { nodes, edges } = draw(stages, false);
    const at = Object.fromEntries(nodes.map((n) => [n.stage.uid, n]));
    expect(edges.map((e) => `${e.from} ${e.to}`).sort()).toEqual(["a c", "b c", "c d"]);
    for (const { from, to } of edges) expect(at[from]!.x + at[from]!.width).toBeLessThan(at[to]!.x);
    for (const a of nodes) for (const b of nodes) {
      if (a !== b) expect(a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y).toBe(true);
    }
  });
});

describe("problems", () => {
  const lastError = { reason: "StorageFull", message: "no room", remedy: "Make room", time: "2026-11-26T03:00:00Z" };

  it("come with their remedy, worst first, each once", () => {
    const warnings = [{ reason: "QueryWithoutName", message: "give it a name" }];
    const found = problems(job("a", { phase: "Failed", lastError, warnings, conditions: [condition("Stalled", "True", "StorageFull")] }), null);
    expect(found.map((f) => [f.severity, f.reason, f.remedy])).toEqual([
      ["bad", "StorageFull", "Make room"],
      ["warn", "QueryWithoutName", ""],
    ]);
  });

  it("of the past are a note", () => {
    const [past] = problems(job("a", { phase: "Running", lastError, conditions: [condition("Ready", "True")] }), null);
    expect([past!.severity, past!.message, past!.remedy]).toEqual(["note", "Is over: no room", ""]);
  });

  it("of the past are a note while the job is upgraded, too", () => {
    const ready = { ...condition("Ready", "False"), lastTransitionTime: "2026-11-26T03:10:00Z" };
    const [past] = problems(job("a", { phase: "Stopping", lastError, conditions: [ready] }), null);
    expect(past!.message).toBe("Is over: no room");
    const [now] = problems(job("a", { phase: "Restarting", lastError, conditions: [ready] }), null);
    expect(now!.severity).toBe("bad");
  });

  it("of a start are what it waits for, and why the driver before failed", () => {
    const wait = { ...lastError, reason: "Unschedulable", message: "no node" };
    const restarts = { count: 1, epoch: 1, generation: 1, error: lastError };
    const starting = { phase: "Starting", epoch: 2, lastError: wait, restarts } as const;
    const ready = { ...condition("Ready", "False"), message: "no node." };
    const both = problems(job("a", { ...starting, conditions: [condition("Stalled", "True", "Unschedulable"), ready] }), null);
    expect(both.map((f) => [f.severity, f.reason])).toEqual([["bad", "Unschedulable"], ["bad", "StorageFull"]]);
    const scheduled = problems(job("a", { ...starting, conditions: [condition("Ready", "False")] }), null);
    expect(scheduled.map((f) => [f.severity, f.reason])).toEqual([["bad", "StorageFull"], ["note", "Unschedulable"]]);
  });

  it("say what could not be read", () => {
    const details = { index: { problem: "forbidden" }, events: [], pods: { pods: [], upgrade: null }, timeline: [] };
    expect(problems(job("a"), details)).toMatchObject([{ severity: "note", message: "forbidden" }]);
  });
});

describe("buttons", () => {
  const may: May = { note: "", requests: {} };
  const open = (...args: Parameters<typeof requests>) => requests(...args).filter((r) => !r.why).map((r) => r.id);

  it("are those that the situation allows", () => {
    expect(open(job("a", { phase: "Running" }), may)).toEqual(["savepoint", "stop", "suspend", "drain", "cancel"]);
    expect(open(job("a", { phase: "Stopped" }, { state: "Stopped" }), may)).toEqual(["drain", "resume"]);
    expect(open(job("a", { phase: "Draining" }, { state: "Drained" }), may)).toEqual(["cancel"]);
    expect(open(job("a", { phase: "Drained" }, { state: "Drained" }), may)).toEqual([]);
    expect(open(job("a", { phase: "Suspended" }, { suspend: true }), may)).toEqual(["drain", "resume"]);
    expect(open(job("a", { phase: "Failed" }), may)).toEqual(["drain", "restart"]);
  });

  it("refuse at least what the commands refuse", () => {
    for (const { phase, spec, refused: verbs } of refused) {
      const offered = open(job("a", { phase } as never, spec as never), may);
      expect(offered.filter((id) => verbs.includes(id)), `${phase} ${JSON.stringify(spec)}`).toEqual([]);
    }
  });

  it("begin the next attempt of a job that waits for it", () => {
    expect(open(job("a", { phase: "Restarting" }), may)).toContain("restart");
  });

  it("wait for the answer about permissions", () => {
    expect(open(job("a", { phase: "Running" }), null)).toEqual([]);
  });

  it("say why the server does not take them, unless the situation says more", () => {
    const local: May = { note: "", requests: { drain: { why: "Only when it starts", command: "" }, stop: { why: "", command: "streamjob stop" } } };
    const [running, drained] = [job("a", { phase: "Running" }), job("a", { phase: "Drained" }, { state: "Drained" })].map((j) => requests(j, local));
    expect(running!.find((r) => r.id === "drain")!.why).toBe("Only when it starts");
    expect(running!.find((r) => r.id === "stop")).toMatchObject({ why: "", command: "streamjob stop" });
    expect(drained!.find((r) => r.id === "drain")!.why).toBe("It is Drained");
  });

  it("are offered if nobody knows the permissions: the answer says it", () => {
    expect(open(job("a", { phase: "Running" }), { problem: "the review was refused" })).toContain("stop");
  });

  it("ask before what cannot be undone, by name", () => {
    const asked = requests(job("orders", { phase: "Running" }), may).filter((r) => r.confirm);
    expect(asked.map((r) => r.id)).toEqual(["drain", "cancel"]);
    for (const { confirm } of asked) expect(confirm).toContain("orders");
  });
});

describe("a savepoint", () => {
  const request = { requestId: "savepoint-manual-4", cause: "Manual", savepoint: "s3a://b/sp/savepoint-manual-4", requestedAt: "2026-11-26T03:00:00Z", deadline: "2026-11-26T03:30:00Z" } as const;
  const at = (minute: number) => Date.parse("2026-11-26T03:00:00Z") + minute * 60_000;

  it("is told from its request to its end, for a while", () => {
    expect(taken(job("a", { phase: "Running", savepointNonce: 1 }, { savepoint: { nonce: 2 } }), at(0))!.text).toBe("A savepoint is requested");
    const goes = job("a", { phase: "Running", savepointRequest: { ...request, progress: "copied 1 of 3 files" } });
    expect(taken(goes, at(1))).toMatchObject({ text: "Savepoint savepoint-manual-4 is being taken: copied 1 of 3 files", over: false });
    const savepoint = { latest: request.savepoint, checkpoint: 7, completedAt: "2026-11-26T03:01:00Z", drained: false };
    const done = job("a", { phase: "Running", savepoint, savepointRequest: { ...request, checkpoint: 7 } });
    expect(taken(done, at(2))).toMatchObject({ text: "Savepoint savepoint-manual-4 is complete: checkpoint 7", since: "2026-11-26T03:01:00Z", over: true });
    expect(taken(done, at(12))).toBeNull();
  });
});

describe("figures over time", () => {
  const samples: Samples = { a: [[10, { lagRows: 1 }], [30, { lagRows: 3 }], [40, {}]], b: [[20, { lagRows: 7 }]] };

  it("hold until the next one, and end when the driver does", () => {
    expect(byStage(samples, ["a", "b"], figure("lagRows"))).toEqual([[10, 20, 30, 40], [1, 1, 3, null], [null, 7, 7, 7]]);
  });

  it("stack the parts of a batch up to the whole", () => {
    const [times, ...lines] = stacked([[1, { batchSeconds: { triggerExecution: 10, addBatch: 6, walCommit: 1 } }], [2, {}]]);
    expect(times).toEqual([1, 2]);
    expect(lines.at(-1)).toEqual([10, null]);
    expect(lines[4]![0]).toBe(7);
  });
});

describe("points", () => {
  it("are drawn for values to which no line leads", () => {
    expect(alone([7])).toEqual([0]);
    expect(alone([1, 2, null, 3, null, 4, 5])).toEqual([3]);
    expect(alone([])).toEqual([]);
  });
});

describe("the stream", () => {
  it("puts messages together however they arrive", () => {
    const messages = new Messages();
    const text = ': nothing new\n\ndata: {"a":1}\n\ndata: {"b":2}\n\n';
    const found = [...text].flatMap((letter) => messages.push(letter));
    expect(found).toEqual(['{"a":1}', '{"b":2}']);
  });
});

describe("YAML", () => {
  it("reads as it would be written", () => {
    expect(yaml({ a: { b: ["x y", 1], c: {} }, d: "true", e: [], f: [{ g: 1, h: "i" }] })).toBe('a:\n  b:\n    - "x y"\n    - 1\n  c: {}\nd: "true"\ne: []\nf:\n  - g: 1\n    h: i\n');
  });
});
