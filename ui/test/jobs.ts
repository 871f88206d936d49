/** Jobs for tests. */

import type { Job, Stage, Status } from "../src/types";

export function stage(uid: string, more: Partial<Stage> = {}): Stage {
  return { uid, tasks: [{ index: 0, state: "Running", batch: 3 }], ...more };
}

export function job(name: string, status: Partial<Status> = {}, spec: Partial<Job["spec"]> = {}): Job {
  return {
    metadata: { uid: `u-${name}`, name, namespace: "streams", generation: 1, resourceVersion: "1", creationTimestamp: "2026-11-01T00:00:00Z" },
    spec: { image: "i", application: { file: "a.py" }, storage: { checkpoints: "/c", savepoints: "/s" }, ...spec } as Job["spec"],
    status: status as Status,
  };
}

export function condition(type: string, status: "True" | "False", reason = "Why", message = "what") {
  return { type, status, reason, message, observedGeneration: 1, lastTransitionTime: "2026-11-26T03:00:00Z" } as NonNullable<Status["conditions"]>[number];
}
