/** What the page knows. Components read signals; only this module writes them. */

import { computed, signal } from "@preact/signals";
import { Refused, call, read } from "./session";
import { follow } from "./stream";
import type { Change, Details, Job, May, Part, Problem, Samples } from "./types";

export type Connection = "connecting" | "live" | "lost" | "denied";

export const jobs = signal<ReadonlyMap<string, Job>>(new Map());
export const connection = signal<Connection>("connecting");
export const complete = signal(false);
export const problem = signal<Problem | null>(null);
/** What there is to say if there are no jobs. */
export const nothing = signal("");
/** Milliseconds since 1970, once a second. */
export const now = signal(Date.now());
export const route = signal(parse(location.hash));
export const details = signal<Details | null>(null);
/** What the user may do with the selected job: asked apart, because the buttons wait for it. */
export const may = signal<Part<May> | null>(null);
export const samples = signal<Samples>({});

export interface Route {
  namespace: string;
  name: string;
  tab: string;
}

/** `#/NAMESPACE/NAME/TAB`; anything else is the list. */
export function parse(hash: string): Route | null {
  const [namespace, name, tab] = hash.replace(/^#\//, "").split("/").map(decodeURIComponent);
  return namespace && name ? { namespace, name, tab: tab || "overview" } : null;
}

export function address(job: Pick<Job["metadata"], "namespace" | "name">, tab = ""): string {
  return `#/${encodeURIComponent(job.namespace)}/${encodeURIComponent(job.name)}${tab ? `/${tab}` : ""}`;
}

export const selected = computed<Job | null>(() => {
  const at = route.value;
  if (at === null) return null;
  for (const job of jobs.value.values()) {
    if (job.metadata.name === at.name && job.metadata.namespace === at.namespace) return job;
  }
  return null;
});

/** Several namespaces are shown with their names. */
export const namespaces = computed(() => new Set([...jobs.value.values()].map((job) => job.metadata.namespace)));

let incoming: Map<string, Job> | null = null;

/** A new connection sends everything: what it does not send is gone. */
export function apply(change: Change, first: boolean): void {
  if (first && incoming === null) incoming = new Map();
  const next = incoming ?? new Map(jobs.value);
  for (const job of change.jobs) next.set(job.metadata.uid, job);
  for (const uid of change.deleted) next.delete(uid);
  // While everything arrives in parts, each part is a map of its own: a signal notices another object only.
  jobs.value = incoming === null ? next : new Map(next);
  problem.value = change.problem;
  nothing.value = change.nothing;
  if (change.complete) {
    incoming = null;
    complete.value = true;
  }
}

const SILENCE = 25_000; // milliseconds; the server sends something every ten seconds

/** Follow the changes, and connect again when the server or the network was away. */
export async function connect(): Promise<never> {
  for (;;) {
    const abort = new AbortController();
    let watchdog = 0;
    const alive = () => {
      clearTimeout(watchdog);
      watchdog = window.setTimeout(() => abort.abort(), SILENCE);
      connection.value = "live";
    };
    try {
      const answer = await call("stream", { signal: abort.signal });
      let first = true;
      await follow(
        answer.body!,
        (change) => {
          apply(change, first);
          if (change.complete) first = false;
        },
        alive,
      );
    } catch (error) {
      if (error instanceof Refused && error.status === 401) {
        connection.value = "denied";
        await new Promise(() => {});
      }
    }
    clearTimeout(watchdog);
    incoming = null;
    connection.value = "lost";
    await new Promise((wake) => setTimeout(wake, 1000));
  }
}

export const PATH = (job: Job) => `jobs/${encodeURIComponent(job.metadata.namespace)}/${encodeURIComponent(job.metadata.name)}`;

/** Read the details of a job. What comes too late, after another job was opened, is dropped. */
export async function readDetails(job: Job): Promise<void> {
  const found = await read<Details>(`${PATH(job)}/details`).catch(() => null);
  if (found !== null && selected.peek()?.metadata.uid === job.metadata.uid) details.value = found;
}

export async function readMay(job: Job): Promise<void> {
  const found = await read<May>(`${PATH(job)}/permissions`).catch((error: Error) => ({ problem: error.message }));
  if (selected.peek()?.metadata.uid === job.metadata.uid) may.value = found;
}

/** Read the samples since the last ones. */
export async function readSamples(job: Job): Promise<void> {
  const before = samples.peek();
  const after = Math.max(0, ...Object.values(before).map((known) => known.at(-1)?.[0] ?? 0));
  const found = await read<{ stages: Samples }>(`${PATH(job)}/history?after=${after}`).catch(() => null);
  if (found === null || selected.peek()?.metadata.uid !== job.metadata.uid) return;
  const merged: Samples = { ...samples.peek() };
  for (const [stage, more] of Object.entries(found.stages)) {
    const last = merged[stage]?.at(-1)?.[0] ?? 0;
    merged[stage] = [...(merged[stage] ?? []), ...more.filter(([time]) => time > last)];
  }
  samples.value = merged;
}

export function forgetDetails(): void {
  details.value = null;
  may.value = null;
  samples.value = {};
}

/** Ask for a change of the job. Throws `Refused`. */
export async function send(job: Job, request: string): Promise<void> {
  await call(`${PATH(job)}/requests`, { method: "POST", body: JSON.stringify({ request }) });
}

export function start(): void {
  addEventListener("hashchange", () => {
    route.value = parse(location.hash);
  });
  setInterval(() => {
    if (!document.hidden) now.value = Date.now();
  }, 1000);
  document.addEventListener("visibilitychange", () => {
    now.value = Date.now();
  });
  void connect();
}
