import { describe, expect, it } from "vitest";
import { arrange, executors, lasting, row, tone, wanted } from "../src/model/job";
import { condition, job, stage } from "./jobs";

const NONE = new Set<string>();
const order = (column: Parameters<typeof arrange>[3]["column"], down = false) => ({ column, down });
const names = (rows: ReturnType<typeof arrange>) => rows.map((r) => r.name);

describe("what is true of a job", () => {
  it("has the tone of its phase, unless a person has to look", () => {
    expect(tone(job("a", { phase: "Running" }))).toBe("good");
    expect(tone(job("a", { phase: "Draining" }))).toBe("busy");
    expect(tone(job("a", { phase: "Drained" }))).toBe("rest");
    expect(tone(job("a", { phase: "Running", conditions: [condition("Degraded", "True")] }))).toBe("warn");
    expect(tone(job("a", { phase: "Drained", conditions: [condition("Stalled", "True")] }))).toBe("bad");
    expect(tone(job("a"))).toBe("busy");
    expect(tone(job("a", { phase: "OfANewerOperator" as never }))).toBe("rest");
  });

  it("says how many executors there are, and why so many", () => {
    const there = { running: 1, wanted: 3, min: 3, max: 3 };
    expect(executors(job("a"))).toBe("");
    expect(executors(job("a", { executors: there }))).toBe("1 of 3 executors");
    const autoscale = { desired: 3, since: "2026-01-01T00:00:00Z", reason: "160 rows/s need 2.4 cores", limitedBy: "max" };
    expect(executors(job("a", { executors: there, autoscale }))).toBe(
      "1 of 3 executors · autoscale to 3, limited by max: 160 rows/s need 2.4 cores",
    );
  });

  it("crash loops if a driver starts after several failures, and does not look as if it came up", () => {
    const restarts = { count: 3, epoch: 4, generation: 1 };
    expect(tone(job("a", { phase: "Starting", epoch: 5, restarts }))).toBe("bad");
    expect(tone(job("a", { phase: "Restarting", epoch: 4, restarts }))).toBe("bad");
    expect(tone(job("a", { phase: "Pending", epoch: 5, restarts: { ...restarts, count: 1 } }))).toBe("warn");
    expect(tone(job("a", { phase: "Running", epoch: 5, restarts }))).toBe("good");
    expect(tone(job("a", { phase: "Starting", epoch: 7, restarts }))).toBe("busy");
    expect(row(job("a", { phase: "Running", epoch: 5, restarts })).restarts).toBe(3);
  });

  it("says how long it has been ready, apart from what the operator says", () => {
    const at = Date.parse("2026-11-26T03:00:02Z");
    expect(lasting(job("a", { conditions: [condition("Ready", "True")] }), at)).toBe("ready for 2 s");
    expect(lasting(job("a", { conditions: [condition("Ready", "False")] }), at)).toBe("not ready for 2 s");
    expect(lasting(job("a"), at)).toBe("");
  });

  it("is to be suspended only if it is to run", () => {
    expect(wanted(job("a", {}, { suspend: true }))).toBe("Suspended");
    expect(wanted(job("a", {}, { suspend: true, state: "Drained" }))).toBe("Drained");
    expect(wanted(job("a"))).toBe("Running");
  });

  it("sums rows and takes the oldest lag, of a job that runs", () => {
    const stages = [
      stage("a", { inputRowsPerSecond: 10, sources: [{ uid: "s", lagSeconds: 4, lagRows: 7 }] }),
      stage("b", { inputRowsPerSecond: 5, sources: [{ uid: "s", lagSeconds: 9 }], batchSeconds: { triggerExecution: 2 } }),
    ];
    expect(row(job("a", { phase: "Running", stages }))).toMatchObject({ rows: 15, lagSeconds: 9, lagRows: 7, batch: 2 });
    expect(row(job("a", { phase: "Draining", stages, driver: { pod: "a-driver-2" } }))).toMatchObject({ rows: null, lagSeconds: null });
    expect(row(job("a", { phase: "Stopped", stages }))).toMatchObject({ rows: null, lagSeconds: null, batch: null });
  });

  it("is computed once for each state", () => {
    const one = job("a", { phase: "Running" });
    expect(row(one)).toBe(row(one));
  });
});

describe("the list", () => {
  const jobs = [
    job("fine", { phase: "Running", epoch: 2 }),
    job("broken", { phase: "Failed", epoch: 9 }),
    job("ended", { phase: "Drained" }),
    job("ending", { phase: "Draining", epoch: 1 }),
  ];

  it("begins with what needs a person", () => expect(names(arrange(jobs, "", NONE, order("phase")))).toEqual(["broken", "ending", "fine", "ended"]));

  it("filters by each word and by phases", () => {
    expect(names(arrange(jobs, "STREAMS end", NONE, order("name")))).toEqual(["ended", "ending"]);
    expect(names(arrange(jobs, "end drained", NONE, order("name")))).toEqual(["ended"]);
    expect(names(arrange(jobs, "", new Set(["Failed", "Running"]), order("name")))).toEqual(["broken", "fine"]);
  });

  it("puts what is not known last, both ways", () => {
    const known = [job("x", { phase: "Running", stages: [stage("a", { inputRowsPerSecond: 3 })] }), job("y", { phase: "Running", stages: [stage("a", { inputRowsPerSecond: 8 })] }), job("z", { phase: "Stopped" })];
    expect(names(arrange(known, "", NONE, order("rows", true)))).toEqual(["y", "x", "z"]);
    expect(names(arrange(known, "", NONE, order("rows")))).toEqual(["x", "y", "z"]);
  });
});
