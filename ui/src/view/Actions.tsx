import { useSignal } from "@preact/signals";
import { type Request, requests } from "../model/requests";
import { Refused } from "../session";
import { may, send } from "../store";
import { type Job, type Problem, isProblem } from "../types";
import { Dialog } from "./Dialog";

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
            {request.why && (
              <span class="sr" id={`why-${request.id}`}>
                Not now: {request.why}
              </span>
            )}
          </button>
        ))}
      </div>
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
