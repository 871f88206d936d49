/** The savepoint that somebody has asked for: what it does, and that it is done. */

import type { Job } from "../types";
import { between, last } from "./format";
import { phase } from "./job";

export interface Taken {
  /** Without times: it is announced whenever it changes. */
  text: string;
  since: string | null;
  over: boolean;
}

const SHOWN = 600; // seconds for which one that is done is news

/** @param now milliseconds since 1970 */
export function taken(job: Job, now: number): Taken | null {
  const s = job.status;
  const request = s?.savepointRequest;
  const nonce = job.spec.savepoint?.nonce ?? null;
  if (request && request.checkpoint == null && !request.failure) {
    return { text: `Savepoint ${last(request.savepoint)} is being taken: ${request.progress || "requested"}`, since: request.requestedAt, over: false };
  }
  if (phase(job) === "Running" && nonce !== null && nonce !== (s?.savepointNonce ?? null)) {
    return { text: "A savepoint is requested", since: null, over: false };
  }
  if (request?.checkpoint == null) return null;
  const done = s?.savepoint?.checkpoint === request.checkpoint ? s.savepoint.completedAt : null;
  if (done === null || (between(done, now) ?? 0) > SHOWN) return null;
  return { text: `Savepoint ${last(request.savepoint)} is complete: checkpoint ${request.checkpoint}`, since: done, over: true };
}
