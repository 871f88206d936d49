/** Numbers and times as people read them. */

const PREFIXES = ["", "k", "M", "G", "T"];

export function count(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  let scaled = Math.abs(value);
  let power = 0;
  while (scaled >= 999.5 && power < PREFIXES.length - 1) {
    scaled /= 1000;
    power += 1;
  }
  const text = power === 0 && Number.isInteger(scaled) ? String(scaled) : scaled.toFixed(scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0);
  return `${value < 0 ? "−" : ""}${text.includes(".") ? text.replace(/\.?0+$/, "") : text}${PREFIXES[power]}`;
}

export function bytes(value: number | null | undefined): string {
  if (value === null || value === undefined) return "–";
  let scaled = value;
  let power = 0;
  while (scaled >= 1023.5 && power < 4) {
    scaled /= 1024;
    power += 1;
  }
  return `${power === 0 ? scaled : scaled.toFixed(scaled < 9.95 ? 1 : 0)} ${["B", "KiB", "MiB", "GiB", "TiB"][power]}`;
}

/** Seconds as the two largest units: `4.2 s`, `3 min 05 s`, `2 h 10 min`, `4 d 3 h`. */
export function duration(seconds: number | null | undefined): string {
  if (seconds === null || seconds === undefined || !Number.isFinite(seconds)) return "–";
  const s = Math.max(0, seconds);
  if (s < 9.95) return `${s.toFixed(1).replace(/\.0$/, "")} s`;
  if (s < 59.5) return `${Math.round(s)} s`;
  const whole = Math.round(s);
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${String(whole % 60).padStart(2, "0")} s`;
  const minutes = Math.round(whole / 60);
  if (minutes < 1440) return `${Math.floor(minutes / 60)} h ${String(minutes % 60).padStart(2, "0")} min`;
  const hours = Math.round(minutes / 60);
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

/** Seconds in one unit, for the axis of a chart. */
export function short(seconds: number): string {
  const units: [number, string][] = [
    [86_400, "d"],
    [3600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const [size, unit] = units.find(([size]) => seconds >= size) ?? [1, "s"];
  return `${Number((seconds / size).toFixed(2))} ${unit}`;
}

// Distances between the ticks of an axis, as far as each tick has a label of its own.
const decimal = (from: number, to: number) => [...Array(to - from).keys()].flatMap((i) => [1, 2, 5].map((n) => Number(`${n}e${from + i}`)));
export const STEPS = {
  count: decimal(-2, 15),
  bytes: [...Array(50).keys()].map((i) => 2 ** i),
  duration: [...decimal(-2, 0), 1, 2, 5, 10, 15, 30, ...[1, 2, 5, 10, 15, 30].map((n) => n * 60), ...[1, 2, 6, 12].map((n) => n * 3600), ...decimal(0, 6).map((n) => n * 86_400)],
  clock: [...[1, 2, 5, 10, 15, 30].map((n) => n * 60), ...[1, 2, 6, 12].map((n) => n * 3600)],
};

/** Seconds from `from` to `until`, null if one is unknown. */
export function between(from: string | null | undefined, until: number | string | null | undefined): number | null {
  if (!from || until === null || until === undefined) return null;
  const end = typeof until === "number" ? until : Date.parse(until);
  const seconds = (end - Date.parse(from)) / 1000;
  return Number.isFinite(seconds) ? seconds : null;
}

/** Local time of day, with the date if it is another day. */
export function clock(time: string | null | undefined, now: number): string {
  if (!time) return "–";
  const at = new Date(time);
  const of = (part: number) => String(part).padStart(2, "0");
  const day = `${at.getFullYear()}-${of(at.getMonth() + 1)}-${of(at.getDate())}`;
  const text = `${of(at.getHours())}:${of(at.getMinutes())}:${of(at.getSeconds())}`;
  return new Date(now).toDateString() === at.toDateString() ? text : `${day} ${text}`;
}

/** The last part of a location. */
export function last(location: string): string {
  return location.replace(/\/+$/, "").split("/").pop() ?? location;
}

export function plural(n: number, word: string): string {
  return `${n} ${word}${n === 1 ? "" : "s"}`;
}
