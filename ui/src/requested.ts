/** What is read when somebody asks for it: it takes a process, or looks into logs. */

import { read } from "./session";
import { PATH } from "./store";
import type { Diagnosis, Job } from "./types";

export interface Listed {
  uri: string;
  problem: string | null;
  size: number | null;
  own: number | null;
}

export async function readSavepoints(job: Job): Promise<Listed[]> {
  return read<Listed[]>(`${PATH(job)}/savepoints`);
}

export async function readDiagnosis(job: Job): Promise<Diagnosis> {
  return read<Diagnosis>(`${PATH(job)}/diagnosis`);
}
