/** What `diagnose` finds: read when the tab is opened, and on request. */

import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { plural } from "../model/format";
import { readDiagnosis } from "../requested";
import { Refused } from "../session";
import type { Diagnosis as Found, Job, Problem, Severity } from "../types";
import { Empty, Panel, Said, Time } from "./parts";

const NAMES: Record<Severity, string> = { error: "Error", warning: "Warning", note: "Note" };
const TONES: Record<Severity, string> = { error: "bad", warning: "warn", note: "note" };

export function Diagnosis({ job }: { job: Job }) {
  const found = useSignal<Found | null>(null);
  const reading = useSignal(false);
  const refused = useSignal<Problem | null>(null);
  const look = async () => {
    if (reading.value) return;
    reading.value = true;
    refused.value = null;
    try {
      found.value = await readDiagnosis(job);
    } catch (e) {
      refused.value = { message: e instanceof Error ? e.message : String(e), remedy: e instanceof Refused ? e.remedy : "" };
    }
    reading.value = false;
  };
  useEffect(() => void look(), []);
  return (
    <Panel
      id="diagnosis"
      title="Diagnosis"
      aside={
        <>
          {found.value && (
            <span class="faint">
              as of <Time at={found.value.at} />
            </span>
          )}
          <button class="quiet" aria-disabled={reading.value} onClick={() => void look()}>
            Look again
          </button>
        </>
      }
    >
      <p class="sr" role="status">
        {reading.value ? "Reading status, index, Events, pods and logs" : found.value ? tally(found.value) : ""}
      </p>
      {refused.value && (
        <div class="finding bad" role="alert">
          <p>{refused.value.message}</p>
          {refused.value.remedy && <p class="remedy">{refused.value.remedy}</p>}
        </div>
      )}
      {found.value ? <Findings found={found.value} /> : reading.value && <Empty>Reading…</Empty>}
    </Panel>
  );
}

function Findings({ found }: { found: Found }) {
  return (
    <>
      <ul class="findings" aria-label="Findings, the worst first">
        {found.findings.map((f) => (
          <li key={`${f.reason} ${f.what}`} class={`finding ${TONES[f.severity]}`}>
            <h3>
              <span class="mark">{NAMES[f.severity]}</span> {f.reason}
            </h3>
            <p>
              <Said text={f.what} />
            </p>
            {f.remedy && (
              <p class="remedy">
                <span class="what">What to do:</span> <Said text={f.remedy} />
              </p>
            )}
            {f.mover && f.severity !== "note" && (
              <p>
                <span class="what">The next move is</span> {f.mover}
              </p>
            )}
            {f.evidence.length > 0 && (
              <dl class="evidence" aria-label="Evidence">
                {f.evidence.map((e, i) => (
                  <div key={i}>
                    <dt>{e.where}</dt>
                    <dd>{e.text}</dd>
                  </div>
                ))}
              </dl>
            )}
          </li>
        ))}
      </ul>
      <p class="measure faint">
        The same in a terminal: <code>{found.command}</code>
      </p>
    </>
  );
}

function tally(found: Found): string {
  const of = (severity: Severity) => found.findings.filter((f) => f.severity === severity).length;
  return `${plural(of("error"), "error")}, ${plural(of("warning"), "warning")}, ${plural(of("note"), "note")}`;
}
