/** The list of jobs. Only the rows in sight are in the document. */

import { computed, signal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { count, duration, between } from "../model/format";
import { type Column, type Row, arrange, row, toneOf } from "../model/job";
import { address, complete, jobs, namespaces, nothing, now } from "../store";
import { Empty, Phase, Said } from "./parts";

const HEIGHT = { wide: 34, narrow: 62 };
const MARGIN = 10; // rows above and below those in sight

const filter = signal("");
const phases = signal<ReadonlySet<string>>(new Set());
const order = signal<{ column: Column; down: boolean }>({ column: "phase", down: false });
const active = signal(0);
const narrow = matchMedia("(max-width: 720px)");

const rows = computed(() => arrange(jobs.value.values(), filter.value, phases.value, order.value));

const tally = computed(() => {
  const found = new Map<string, number>();
  for (const job of jobs.value.values()) {
    const { phase } = row(job);
    found.set(phase, (found.get(phase) ?? 0) + 1);
  }
  return [...found].sort(([a], [b]) => (a < b ? -1 : 1));
});

const COLUMNS: { id: Column; label: string; number?: boolean; title?: string }[] = [
  { id: "phase", label: "Phase" },
  { id: "name", label: "Job" },
  { id: "rows", label: "Rows/s", number: true, title: "Rows that all queries read per second" },
  { id: "lag", label: "Lag", number: true, title: "Age of the oldest input that is not committed, or rows if the age is unknown" },
  { id: "batch", label: "Batch", number: true, title: "Duration of the slowest query's last batch" },
  { id: "restarts", label: "Restarts", number: true, title: "Failures of the driver in a row, up to the last" },
  { id: "epoch", label: "Epoch", number: true, title: "Number of the driver's attempt" },
  { id: "checkpoint", label: "Checkpoint", number: true, title: "Age of the newest checkpoint" },
  { id: "since", label: "Since", number: true, title: "How long it has been ready, or not" },
];

export function Jobs() {
  const total = jobs.value.size;
  return (
    <section class="jobs" aria-labelledby="jobs-title">
      <div class="bar">
        <h1 id="jobs-title">
          {total} {total === 1 ? "job" : "jobs"}
        </h1>
        <input
          id="filter"
          type="search"
          placeholder="Filter: name, namespace, phase, image"
          aria-label="Filter the jobs"
          value={filter.value}
          onInput={(e) => {
            filter.value = e.currentTarget.value;
            active.value = 0;
          }}
          onKeyDown={(e) => {
            if (e.key === "ArrowDown" || e.key === "Enter") {
              e.preventDefault();
              document.querySelector<HTMLElement>("#rows a")?.focus();
            }
          }}
        />
        <div class="chips" role="group" aria-label="Phases">
          {tally.value.map(([phase, n]) => (
            <Chip key={phase} phase={phase} n={n} />
          ))}
        </div>
      </div>
      {total === 0 && complete.value ? (
        <Empty>
          <Said text={nothing.value} />
        </Empty>
      ) : (
        <List />
      )}
      <p class="sr" role="status">
        {filter.value || phases.value.size ? `${rows.value.length} of ${total} jobs` : ""}
      </p>
    </section>
  );
}

function Chip({ phase, n }: { phase: string; n: number }) {
  const on = phases.value.has(phase);
  const toggle = () => {
    const next = new Set(phases.value);
    if (on) next.delete(phase);
    else next.add(phase);
    phases.value = next;
  };
  return (
    <button class="chip" aria-pressed={on} onClick={toggle}>
      <Phase tone={toneOf(phase)}>{phase}</Phase> {n}
    </button>
  );
}

const top = signal(0);
const sight = signal(800);
const slim = signal(narrow.matches);
narrow.addEventListener("change", () => (slim.value = narrow.matches));

function List() {
  const body = useRef<HTMLDivElement>(null);
  const rowHeight = slim.value ? HEIGHT.narrow : HEIGHT.wide;
  useLayoutEffect(() => {
    const box = body.current!;
    box.scrollTop = top.peek();
    const observer = new ResizeObserver(() => (sight.value = box.clientHeight));
    observer.observe(box);
    return () => observer.disconnect();
  }, []);
  const all = rows.value;
  const first = Math.max(0, Math.floor(top.value / rowHeight) - MARGIN);
  const end = Math.min(all.length, Math.ceil((top.value + sight.value) / rowHeight) + MARGIN);
  const focused = useRef(false);
  useEffect(() => {
    if (focused.current) body.current!.querySelector<HTMLElement>(`[data-row="${active.value}"] a`)?.focus({ preventScroll: true });
  }, [active.value]);
  const move = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1, PageDown: 10, PageUp: -10, Home: -all.length, End: all.length }[event.key];
    if (step === undefined || all.length === 0) return;
    event.preventDefault();
    const to = Math.min(all.length - 1, Math.max(0, active.value + step));
    const box = body.current!;
    const y = to * rowHeight;
    box.scrollTop = Math.min(Math.max(box.scrollTop, y + rowHeight - (box.clientHeight - 34)), y);
    top.value = box.scrollTop;
    focused.current = true;
    if (to === active.value) return;
    // The row that has the focus may leave the document: the keys until the next one has it must not be lost.
    box.focus({ preventScroll: true });
    active.value = to;
  };
  return (
    <div class="scroll" ref={body} onScroll={(e) => (top.value = e.currentTarget.scrollTop)} onKeyDown={move} tabIndex={-1}>
      <table aria-rowcount={all.length + 1}>
        <thead>
          <tr aria-rowindex={1}>
            {COLUMNS.map((column) => (
              <Heading key={column.id} column={column} />
            ))}
            <th scope="col" class="message">
              Message
            </th>
          </tr>
        </thead>
        <tbody id="rows">
          {first > 0 && <Spacer height={first * rowHeight} />}
          {all.slice(first, end).map((r, i) => (
            <Line key={r.uid} row={r} index={first + i} current={active.value === first + i} several={namespaces.value.size > 1} />
          ))}
          {end < all.length && <Spacer height={(all.length - end) * rowHeight} />}
        </tbody>
      </table>
      {all.length === 0 && complete.value && <Empty>No job matches the filter.</Empty>}
    </div>
  );
}

function Spacer({ height }: { height: number }) {
  return (
    <tr aria-hidden="true" class="spacer">
      <td colSpan={COLUMNS.length + 1} style={{ height: `${height}px` }} />
    </tr>
  );
}

function Heading({ column }: { column: (typeof COLUMNS)[number] }) {
  const { column: by, down } = order.value;
  const sorted = by === column.id;
  return (
    <th scope="col" class={`${column.id}${column.number ? " number" : ""}`} aria-sort={sorted ? (down ? "descending" : "ascending") : "none"}>
      <button title={column.title} onClick={() => (order.value = { column: column.id, down: sorted ? !down : Boolean(column.number) })}>
        {sorted && column.number && <Arrow down={down} />}
        {column.label}
        {sorted && !column.number && <Arrow down={down} />}
      </button>
    </th>
  );
}

function Arrow({ down }: { down: boolean }) {
  return (
    <span aria-hidden="true" class="arrow">
      {down ? "↓" : "↑"}
    </span>
  );
}

function Line({ row: r, index, current, several }: { row: Row; index: number; current: boolean; several: boolean }) {
  return (
    <tr aria-rowindex={index + 2} data-row={index} class={current ? "current" : ""} onClick={() => (location.hash = address(r))}>
      <td class="phase">
        <Phase tone={r.tone}>{r.phase}</Phase>
      </td>
      <td class="name">
        <a href={address(r)} tabIndex={current ? 0 : -1} onFocus={() => (active.value = index)}>
          {several && <span class="faint">{r.namespace} / </span>}
          {r.name}
        </a>
      </td>
      <td class="rows number">{count(r.rows)}</td>
      <td class="lag number">{r.lagSeconds !== null ? duration(r.lagSeconds) : r.lagRows !== null ? `${count(r.lagRows)} rows` : "–"}</td>
      <td class="batch number">{duration(r.batch)}</td>
      <td class="restarts number">{r.restarts || "–"}</td>
      <td class="epoch number">{r.epoch || "–"}</td>
      <td class="checkpoint number">
        <Age from={r.checkpoint} />
      </td>
      <td class="since number">
        <Age from={r.since} />
      </td>
      <td class="message" title={r.message}>
        {r.message}
      </td>
    </tr>
  );
}

/** Coarse, so that a row changes once a minute at most. */
function Age({ from }: { from: string | null }) {
  const seconds = between(from, now.value);
  return <>{seconds === null ? "–" : coarse(seconds)}</>;
}

function coarse(seconds: number): string {
  if (seconds < 60) return "< 1 min";
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  if (seconds < 172_800) return `${Math.floor(seconds / 3600)} h`;
  return `${Math.floor(seconds / 86_400)} d`;
}
