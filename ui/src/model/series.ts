/** Samples as columns for the charts. */

import type { FigureName, Figures, Sample, Samples } from "../types";

export type Row = (number | null)[];
export type Columns = [number[], ...Row[]];

/** One line for each stage. Times of all stages are merged; a value holds until the next one. */
export function byStage(samples: Samples, stages: string[], value: (figures: Figures) => number | undefined): Columns {
  const times = [...new Set(stages.flatMap((stage) => (samples[stage] ?? []).map(([time]) => time)))].sort((a, b) => a - b);
  return [times, ...stages.map((stage) => held(samples[stage] ?? [], times, value))];
}

function held(known: Sample[], times: number[], value: (figures: Figures) => number | undefined): Row {
  let next = 0;
  let last: number | null = null;
  return times.map((time) => {
    while (next < known.length && known[next]![0] <= time) last = value(known[next++]![1]) ?? null;
    return last;
  });
}

export function figure(name: FigureName): (figures: Figures) => number | undefined {
  return (figures) => figures[name];
}

// In the order in which a trigger runs them; what is left is Spark's own time between them.
export const PARTS = ["latestOffset", "getBatch", "queryPlanning", "walCommit", "addBatch", "commitOffsets", "other"] as const;

/** The parts of a batch, each on top of those before it: the last line is the whole. */
export function stacked(samples: Sample[]): Columns {
  const times = samples.map(([time]) => time);
  const lines = PARTS.map(() => [] as Row);
  for (const [, { batchSeconds }] of samples) {
    let sum = 0;
    let known = 0;
    PARTS.forEach((part, i) => {
      if (batchSeconds === undefined) return lines[i]!.push(null);
      const whole = batchSeconds["triggerExecution"] ?? 0;
      const value = part === "other" ? Math.max(0, whole - known) : (batchSeconds[part] ?? 0);
      if (part !== "other") known += value;
      sum += value;
      return lines[i]!.push(sum);
    });
  }
  return [times, ...lines];
}

/** The indexes of values without a neighbour: a line does not show them, so each gets a point. */
export function alone(line: ArrayLike<number | null | undefined>): number[] {
  return [...Array(line.length).keys()].filter((i) => line[i] != null && line[i - 1] == null && line[i + 1] == null);
}
