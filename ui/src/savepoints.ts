/** What the storage has of a job's savepoints, read on request: it takes a process in the driver's pod. */

import { read } from "./session";
import type { Job } from "./types";

export interface Listed {
  uri: string;
  problem: string | null;
  size: number | null;
  own: number | null;
}

export async function readSavepoints(job: Job): Promise<Listed[]> {
  const { namespace, name } = job.metadata;
  return read<Listed[]>(`jobs/${encodeURIComponent(namespace)}/${encodeURIComponent(name)}/savepoints`);
}
