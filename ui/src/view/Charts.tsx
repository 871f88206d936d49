/** Figures over time. uPlot draws on a canvas; what is drawn last stands in the caption as text. */

import { useSignal } from "@preact/signals";
import { useEffect, useMemo, useRef } from "preact/hooks";
import uPlot from "uplot";
import { STEPS, bytes, count, duration, short } from "../model/format";
import { type Columns, PARTS, alone, byStage, figure, stacked } from "../model/series";
import { stages } from "../model/job";
import { samples } from "../store";
import type { FigureName, Job } from "../types";
import { chosen } from "./StageGraph";
import { Panel } from "./parts";

interface Kind {
  id: string;
  title: string;
  figure: FigureName;
  unit: (value: number | null | undefined) => string;
}

// Of an axis: the steps between its ticks, and their labels.
const STEPS_OF = new Map([[count, STEPS.count], [bytes, STEPS.bytes], [duration, STEPS.duration]]);
const label = (unit: Kind["unit"], tick: number) => (tick === 0 ? "0" : unit === duration ? short(tick) : unit(tick));
const SHORTEST = 120; // seconds of an axis of time

/** Up to the last sample. uPlot would show a whole day behind a single one. */
function span(times: ArrayLike<number>): [number, number] {
  const until = times[times.length - 1] ?? 0;
  return [Math.min(times[0] ?? 0, until - SHORTEST), until];
}

const KINDS: Kind[] = [
  { id: "rows", title: "Rows read per second", figure: "inputRowsPerSecond", unit: count },
  { id: "processed", title: "Rows per second of processing", figure: "processedRowsPerSecond", unit: count },
  { id: "lagSeconds", title: "Lag: age of the oldest input", figure: "lagSeconds", unit: duration },
  { id: "lagRows", title: "Lag in rows", figure: "lagRows", unit: count },
  { id: "lagFiles", title: "Lag in files", figure: "lagFiles", unit: count },
  { id: "watermark", title: "Watermark delay", figure: "watermarkDelaySeconds", unit: duration },
  { id: "stateRows", title: "Rows in the state", figure: "stateRows", unit: count },
  { id: "stateBytes", title: "Memory of the state", figure: "stateBytes", unit: bytes },
];

export function Charts({ job }: { job: Job }) {
  const all = samples.value;
  const uids = stages(job).map((s) => s.uid);
  const one = chosen.value !== null && uids.includes(chosen.value) ? chosen.value : null;
  const drawn = one === null ? uids : [one];
  const slowest = one ?? slowestOf(job) ?? uids[0]!;
  const charts = useMemo(
    () =>
      KINDS.map((kind) => ({ kind, columns: byStage(all, drawn, figure(kind.figure)) })).filter(({ columns }) =>
        columns.slice(1).some((line) => (line as (number | null)[]).some((v) => v !== null)),
      ),
    [all, drawn.join()],
  );
  const parts = useMemo(() => stacked(all[slowest] ?? []), [all, slowest]);
  return (
    <Panel
      id="charts"
      title={one === null ? "Figures" : `Figures of ${one}`}
      aside={
        <>
          <span class="faint">since this command was started, at most two hours</span>
          {one !== null && (
            <button class="quiet" onClick={() => (chosen.value = null)}>
              All stages
            </button>
          )}
        </>
      }
    >
      <div class="charts">
        {charts.map(({ kind, columns }) => (
          <Chart key={`${kind.id} ${drawn.join()}`} title={kind.title} names={drawn} columns={columns} unit={kind.unit} />
        ))}
        {parts[0].length > 0 && (
          <Chart key={`parts ${slowest}`} title={`Duration of a batch and its parts${uids.length > 1 ? `: ${slowest}` : ""}`} names={[...PARTS]} columns={parts} unit={duration} areas />
        )}
      </div>
    </Panel>
  );
}

function slowestOf(job: Job): string | null {
  const known = stages(job).map((s) => [s.batchSeconds?.["triggerExecution"] ?? 0, s.uid] as const);
  return known.sort(([a], [b]) => b - a)[0]?.[1] ?? null;
}

const HUES = 7; // --series-0 … in style.css: one for each part of a batch
const HEIGHT = 132;

function Chart({ title, names, columns, unit, areas = false }: { title: string; names: string[]; columns: Columns; unit: Kind["unit"]; areas?: boolean }) {
  const box = useRef<HTMLDivElement>(null);
  const plot = useRef<uPlot | null>(null);
  const at = useSignal<number | null>(null);
  const scheme = useScheme();
  useEffect(() => {
    const around = box.current!;
    const made = new uPlot(options(names, unit, areas, around, at), drawing(columns, areas), around);
    plot.current = made;
    const observer = new ResizeObserver(() => made.setSize({ width: around.clientWidth, height: HEIGHT }));
    observer.observe(around);
    return () => {
      observer.disconnect();
      made.destroy();
    };
  }, [names.join(), scheme]);
  useEffect(() => plot.current?.setData(drawing(columns, areas)), [columns]);
  const index = at.value !== null && at.value < columns[0].length ? at.value : columns[0].length - 1;
  const values = names.map((_, i) => {
    const line = columns[i + 1] as (number | null)[] | undefined;
    const value = line?.[index] ?? null;
    const below = areas && i > 0 ? ((columns[i] as (number | null)[])[index] ?? 0) : 0;
    return value === null ? null : value - below;
  });
  return (
    <figure>
      <figcaption>
        <span>{title}</span>
        <span class="values">
          {at.value !== null && <span class="faint">{new Date(columns[0][index]! * 1000).toLocaleTimeString([], { hourCycle: "h23" })}</span>}
          {areas && <strong>{unit((columns[names.length] as (number | null)[])[index])}</strong>}
          {names.map((name, i) =>
            values[i] === null || (areas && (values[i] ?? 0) < 0.0005) ? null : (
              <span key={name}>
                {names.length > 1 && <span class={`swatch s${i % HUES}`} aria-hidden="true" />}
                {names.length > 1 && `${name} `}
                <strong>{unit(values[i])}</strong>
              </span>
            ),
          )}
        </span>
      </figcaption>
      <div ref={box} class="plot" aria-hidden="true" />
    </figure>
  );
}

/** What uPlot gets: of areas the uppermost first, because the others lie on top of it. */
function drawing(columns: Columns, areas: boolean): uPlot.AlignedData {
  const [times, ...lines] = columns;
  return [times, ...(areas ? [...lines].reverse() : lines)] as uPlot.AlignedData;
}

function options(names: string[], unit: Kind["unit"], areas: boolean, box: HTMLElement, at: { value: number | null }): uPlot.Options {
  const style = getComputedStyle(box);
  const colour = (name: string) => style.getPropertyValue(name).trim();
  const order = areas ? [...names.keys()].reverse() : [...names.keys()];
  const axis = { stroke: colour("--faint"), grid: { stroke: colour("--line"), width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
  return {
    width: box.clientWidth,
    height: HEIGHT,
    legend: { show: false },
    cursor: { y: false, drag: { x: false, y: false }, points: { show: false }, sync: { key: "job" } },
    hooks: { setCursor: [(u) => (at.value = u.cursor.idx ?? null)] },
    padding: [10, 18, 0, 0], // room for half a label at the end of each axis
    scales: { x: { range: (u) => span(u.data[0]) }, y: { range: (_, min, max) => [Math.min(0, min), max > 0 ? max * 1.1 : 1] } },
    axes: [
      { ...axis, size: 22, space: 90, incrs: STEPS.clock, values: (_, ticks) => ticks.map((t) => new Date(t * 1000).toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", hourCycle: "h23" })) },
      { ...axis, size: (_, labels) => Math.max(58, 14 + 7 * Math.max(0, ...(labels ?? []).map((l) => l.length))), space: 28, incrs: STEPS_OF.get(unit)!, values: (_, ticks) => ticks.map((t) => label(unit, t)) },
    ],
    series: [
      {},
      ...order.map((i) => {
        const stroke = colour(`--series-${i % HUES}`);
        return { label: names[i]!, stroke, width: areas ? 0.5 : 1.5, ...(areas ? { fill: stroke } : {}), points: { size: 5, fill: stroke, filter: (u: uPlot, series: number) => alone(u.data[series]!) }, spanGaps: false };
      }),
    ],
  };
}

/** Colours are drawn, so a change of light and dark draws anew. */
function useScheme(): boolean {
  const dark = useSignal(matchMedia("(prefers-color-scheme: dark)").matches);
  useEffect(() => {
    const query = matchMedia("(prefers-color-scheme: dark)");
    const changed = () => (dark.value = query.matches);
    query.addEventListener("change", changed);
    return () => query.removeEventListener("change", changed);
  }, []);
  return dark.value;
}
