import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { phase } from "../model/job";
import { complete, connection, problem, route, selected } from "../store";
import { Help } from "./Help";
import { JobPage } from "./JobPage";
import { Jobs } from "./Jobs";

export function App() {
  const help = useSignal(false);
  useEffect(() => {
    const pressed = (event: KeyboardEvent) => {
      if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
      const typing = event.target instanceof HTMLInputElement;
      if (event.key === "?" && !typing) help.value = true;
      else if (event.key === "Escape" && route.peek() !== null) location.hash = "#/";
      else if (event.key === "/" && !typing && route.peek() === null) {
        event.preventDefault();
        document.getElementById("filter")?.focus();
      }
    };
    addEventListener("keydown", pressed);
    return () => removeEventListener("keydown", pressed);
  }, []);
  const job = selected.value;
  useEffect(() => {
    document.title = job ? `${job.metadata.name}: ${phase(job)}` : "StreamJobs";
  }, [job]);
  if (connection.value === "denied") return <Denied />;
  return (
    <>
      <a class="skip" href="#main" onClick={(e) => (e.preventDefault(), document.querySelector<HTMLElement>("main")?.focus())}>
        Skip to the content
      </a>
      <header class="top">
        <nav aria-label="Where you are">
          <a href="#/" class="home">
            StreamJobs
          </a>
          {route.value && (
            <>
              <span class="faint" aria-hidden="true">
                /
              </span>
              <span class="faint">{route.value.namespace}</span>
              <span class="faint" aria-hidden="true">
                /
              </span>
              <span aria-current="page">{route.value.name}</span>
            </>
          )}
        </nav>
        <Connection />
        <button class="quiet" onClick={() => (help.value = true)} aria-label="Keyboard and colours">
          ?
        </button>
      </header>
      <main id="main" tabIndex={-1}>
        {problem.value && (
          <div class="finding bad" role="alert">
            <strong>Jobs cannot be read</strong>
            <p>{problem.value.message}</p>
            {problem.value.remedy && <p class="remedy">{problem.value.remedy}</p>}
          </div>
        )}
        {route.value === null ? <Jobs /> : job ? <JobPage key={job.metadata.uid} job={job} /> : complete.value ? <Gone /> : <p class="empty">Reading…</p>}
      </main>
      {help.value && <Help close={() => (help.value = false)} />}
    </>
  );
}

function Connection() {
  const text = { connecting: "connecting", live: "live", lost: "not connected: does the command that serves this page still run?", denied: "" }[connection.value];
  return (
    <span class={`connection ${connection.value}`} role="status">
      <span class="dot" aria-hidden="true" />
      {text}
    </span>
  );
}

function Gone() {
  return (
    <p class="empty">
      There is no such job here. It may have been deleted, or it is in a namespace that this page does not show. <a href="#/">All jobs</a>
    </p>
  );
}

function Denied() {
  return (
    <main class="denied">
      <h1>This address is not enough</h1>
      <p>
        Open the whole address that the command has printed, with everything behind <code>#</code>. Each start of the command has a new one.
      </p>
    </main>
  );
}
