/** What the job is asked to be; what an upgrade changes, and what takes effect at once. */

import { details } from "../store";
import { type Difference, type Job, isProblem } from "../types";
import { Empty, Facts, Panel, Time, Wide } from "./parts";

const MODES: Record<string, string> = {
  Savepoint: "The running driver stops with a savepoint, and the next one starts there",
  Checkpoint: "The running driver stops at a checkpoint, without a savepoint, and the next one starts there",
  Handover: "The next driver starts beside the running one; when it is prepared, the running one stops with a savepoint and hands over",
  NextEpoch: "The next driver has it; the running one is left alone",
};

export function Configuration({ job }: { job: Job }) {
  if (details.value !== null && details.value.pods === undefined) return <Started job={job} />;
  return (
    <>
      <Upgrade job={job} />
      <Spec job={job} />
    </>
  );
}

/** Without a controller nothing takes effect before the next start. */
function Started({ job }: { job: Job }) {
  const { application, sparkConf, checkpoint, storage } = job.spec;
  return (
    <Panel id="spec" title="What the process was started with" aside={<span class="faint">a change takes another start</span>}>
      {application ? <pre tabIndex={0}>{yaml({ application, sparkConf, checkpoint, storage })}</pre> : <Empty>It has left no configuration: an earlier version has run.</Empty>}
    </Panel>
  );
}

function Upgrade({ job }: { job: Job }) {
  const pods = details.value?.pods;
  const upgrade = job.status?.upgrade;
  const standby = job.status?.standby;
  const mode = job.spec.upgrade?.mode ?? "Savepoint";
  return (
    <Panel id="upgrade" title="Upgrade" aside={upgrade && <span class={upgrade.step === "RolledBack" ? "late" : "faint"}>last one: {upgrade.step}</span>}>
      {pods === undefined ? (
        <Empty>Reading…</Empty>
      ) : isProblem(pods) ? (
        <Empty>{pods.problem}</Empty>
      ) : isProblem(pods.upgrade) ? (
        <Empty>{pods.upgrade.problem}</Empty>
      ) : pods.upgrade === null ? (
        <Empty>No driver runs. The next one begins with the configuration below.</Empty>
      ) : pods.upgrade.length === 0 ? (
        <Empty>
          {upgrade?.step === "Starting"
            ? "The driver that starts has exactly the configuration below. It has not come up yet."
            : "The running driver has exactly the configuration below: nothing to upgrade."}
        </Empty>
      ) : (
        <>
          <p>{upgrade?.step === "RolledBack" ? "Rolled back: the running driver has the specification of before." : (MODES[mode] ?? "")}</p>
          <Differences found={pods.upgrade} />
        </>
      )}
      {(upgrade || standby) && (
        <Facts
          facts={[
            ["Step", upgrade?.step ?? null],
            ["First epoch", upgrade?.epoch ?? null],
            ["Prepared driver", standby ? `${standby.pod}: ${standby.prepared ? "waits at its first query" : (standby.error?.message ?? standby.phase ?? "not made yet")}` : null],
            ["The next one is made at", standby?.nextAt ? <Time at={standby.nextAt} /> : null],
            [upgrade?.step === "Preparing" ? "Given up if not prepared by" : "Rolled back if not up by", upgrade?.deadline ? <Time at={upgrade.deadline} /> : null],
            ["Savepoint", upgrade?.savepoint ? <code>{upgrade.savepoint}</code> : null],
            ["Why it failed", upgrade?.error ? `${upgrade.error.reason}: ${upgrade.error.message}` : null],
          ]}
        />
      )}
    </Panel>
  );
}

function Differences({ found }: { found: Difference[] }) {
  return (
    <Wide label="What the upgrade changes">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Field</th>
            <th scope="col">Runs now</th>
            <th scope="col">Asked for</th>
          </tr>
        </thead>
        <tbody>
          {found.map((d) => (
            <tr key={d.field}>
              <th scope="row">
                <code>{d.field}</code>
              </th>
              <td class="old">{d.runs ?? <span class="faint">not set</span>}</td>
              <td class="new">{d.wanted ?? <span class="faint">not set</span>}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}

// As the resource's own description says.
const UPGRADES = ["image", "imagePullPolicy", "runtime", "imagePullSecrets", "application", "deps", "sparkConf", "driver", "executor"];

function Spec({ job }: { job: Job }) {
  const { storage, ...spec } = job.spec;
  const { volumes, volumeMounts, ...locations } = storage;
  const entries = Object.entries({ ...spec, storage: locations });
  const restarts = entries.filter(([key]) => UPGRADES.includes(key));
  const others = entries.filter(([key]) => !UPGRADES.includes(key));
  const mounted = { ...(volumes ? { volumes } : {}), ...(volumeMounts ? { volumeMounts } : {}) };
  return (
    <div class="columns">
      <Panel id="spec-driver" title="A change takes another driver">
        <pre tabIndex={0}>{yaml({ ...Object.fromEntries(restarts), ...(Object.keys(mounted).length ? { storage: mounted } : {}) })}</pre>
      </Panel>
      <Panel id="spec-other" title="A change restarts nothing">
        <pre tabIndex={0}>{yaml(Object.fromEntries(others))}</pre>
      </Panel>
    </div>
  );
}

/** As YAML, for reading. */
export function yaml(value: unknown, indent = ""): string {
  if (Array.isArray(value)) {
    if (value.length === 0) return "[]\n";
    return `\n${value.map((v) => `${indent}- ${yaml(v, `${indent}  `).trimStart()}`).join("")}`;
  }
  if (typeof value === "object" && value !== null) {
    const entries = Object.entries(value).filter(([, v]) => v !== undefined);
    if (entries.length === 0) return "{}\n";
    const lines = entries.map(([key, v]) => {
      const text = yaml(v, `${indent}  `);
      return `${indent}${key}:${text.startsWith("\n") ? text : nested(v) ? `\n${text}` : ` ${text}`}`;
    });
    return lines.join("");
  }
  return `${typeof value === "string" && (!/^[A-Za-z/][\w./:@+-]*$/.test(value) || /^(true|false|null|yes|no|on|off)$/i.test(value)) ? JSON.stringify(value) : String(value)}\n`;
}

function nested(value: unknown): boolean {
  return typeof value === "object" && value !== null && !Array.isArray(value) && Object.keys(value).length > 0;
}
