import { useSignal } from "@preact/signals";
import { between, duration } from "../model/format";
import { type Request, requests } from "../model/requests";
import { taken } from "../model/savepoint";
import { Refused } from "../session";
import { address, may, now, send } from "../store";
import { type Job, type Problem, isProblem } from "../types";
import { Dialog } from "./Dialog";

/** The sign that a savepoint was requested, and that it is there. */
function Savepoint({ job }: { job: Job }) {
  const found = taken(job, now.value);
  const age = found && between(found.since, now.value);
  return (
    <p class="taken">
      <span role="status">{found?.text}</span>
      {age !== null && (
        <span class="faint">
          {" "}
          {found!.over ? `${duration(Math.floor(age))} ago` : `for ${duration(Math.floor(age))}`} · <a href={address(job.metadata, "checkpoints")}>Checkpoints</a>
        </span>
      )}
    </p>
  );
}

export function Actions({ job }: { job: Job }) {
  const asked = useSignal<Request | null>(null);
  const pending = useSignal("");
  const refused = useSignal<Problem | null>(null);
  const note = may.value === null || isProblem(may.value) ? "" : may.value.note;
  const carryOut = async (request: Request) => {
    asked.value = null;
    refused.value = null;
    pending.value = request.id;
    try {
      await send(job, request.id);
    } catch (error) {
      const told = error instanceof Error ? error.message : String(error);
      refused.value = { message: told, remedy: error instanceof Refused ? error.remedy : "" };
    }
    pending.value = "";
  };
  const found = requests(job, may.value);
  return (
    <div class="actions">
      <div class="buttons" role="group" aria-label={`What ${job.metadata.name} shall do`}>
        {found.map((request) => (
          <button
            key={request.id}
            aria-disabled={request.why !== "" || pending.value !== ""}
            title={request.why}
            aria-describedby={request.why ? `why-${request.id}` : undefined}
            class={request.confirm ? "final" : ""}
            onClick={() => {
              if (request.why || pending.value) return;
              if (request.confirm) asked.value = request;
              else void carryOut(request);
            }}
          >
            {request.label}
            {request.confirm && "…"}
          </button>
        ))}
      </div>
      {/* Beside the buttons: a button is found by its name alone. */}
      {found.map(
        (request) =>
          request.why && (
            <span key={request.id} class="sr" id={`why-${request.id}`}>
              Not now: {request.why}
            </span>
          ),
      )}
      <Savepoint job={job} />
      {note && <p class="faint">{note}</p>}
      {refused.value && (
        <div class="finding bad" role="alert">
          <p>{refused.value.message}</p>
          {refused.value.remedy && <p class="remedy">{refused.value.remedy}</p>}
        </div>
      )}
      {asked.value && (
        <Dialog title={`${asked.value.label} ${job.metadata.name}?`} close={() => (asked.value = null)}>
          <p>{asked.value.confirm}</p>
          <p class="faint">
            In {job.metadata.namespace}.{" "}
            {asked.value.command && (
              <>
                From the terminal: <code>{asked.value.command}</code>
              </>
            )}
          </p>
          <div class="buttons">
            <button data-first onClick={() => (asked.value = null)}>
              Leave it as it is
            </button>
            <button class="primary" onClick={() => void carryOut(asked.value!)}>
              {asked.value.label} {job.metadata.name}
            </button>
          </div>
        </Dialog>
      )}
    </div>
  );
}
