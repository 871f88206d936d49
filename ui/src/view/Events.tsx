import { details } from "../store";
import { isProblem } from "../types";
import { Empty, Panel, Time, Wide } from "./parts";

export function Events() {
  return (
    <>
      <Pods />
      <Panel id="events" title="Events" aside={<span class="faint">Kubernetes keeps them for an hour, as a rule</span>}>
        <EventTable />
      </Panel>
    </>
  );
}

function Pods() {
  const found = details.value?.pods;
  return (
    <Panel id="pods" title="Pods">
      {found === undefined ? (
        <Empty>Reading…</Empty>
      ) : isProblem(found) ? (
        <Empty>{found.problem}</Empty>
      ) : found.pods.length === 0 ? (
        <Empty>The job has no pod at the moment.</Empty>
      ) : (
        <Wide label="Pods">
          <table class="plain">
            <thead>
              <tr>
                <th scope="col">Pod</th>
                <th scope="col">What</th>
                <th scope="col" class="number">
                  Epoch
                </th>
                <th scope="col">Phase</th>
                <th scope="col">Node</th>
                <th scope="col">Began</th>
                <th scope="col">Ended</th>
              </tr>
            </thead>
            <tbody>
              {found.pods.map((p) => (
                <tr key={p.name}>
                  <td>
                    <code>{p.name}</code>
                  </td>
                  <td>{p.component}</td>
                  <td class="number">{p.epoch}</td>
                  <td>
                    {p.phase}
                    {p.reason && ` (${p.reason})`}
                    {p.code !== null && `, exit code ${p.code}`}
                  </td>
                  <td>{p.node}</td>
                  <td class="nowrap">
                    <Time at={p.startedAt} />
                  </td>
                  <td class="nowrap">
                    <Time at={p.endedAt} />
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </Wide>
      )}
    </Panel>
  );
}

function EventTable() {
  const found = details.value?.events;
  if (found === undefined) return <Empty>Reading…</Empty>;
  if (isProblem(found)) return <Empty>{found.problem}</Empty>;
  if (found.length === 0) return <Empty>There are none.</Empty>;
  return (
    <Wide label="Events, newest first">
      <table class="plain">
        <thead>
          <tr>
            <th scope="col">Last</th>
            <th scope="col">Reason</th>
            <th scope="col">Message</th>
          </tr>
        </thead>
        <tbody>
          {found.map((e, i) => (
            <tr key={`${i} ${e.time}`}>
              <td class="nowrap">
                <Time at={e.time} />
              </td>
              <td class="nowrap">
                <span class={`swatch ${e.type === "Warning" ? "bad" : "neutral"}`} aria-hidden="true" /> {e.reason}
                {e.type === "Warning" && <span class="sr"> (warning)</span>}
                {e.count > 1 && <span class="faint"> ×{e.count}</span>}
              </td>
              <td>
                {e.about && <code class="faint">{e.about} </code>}
                {e.message}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </Wide>
  );
}
