// Numbers as text, as in the tables of src/report/scale.rs: tests/pure/html.rs compares both.

import type { Cell, Delta, Row } from "./data";

type Step = readonly [number, string];

const BYTES: readonly Step[] = [
  [1, "B"],
  [1024, "KiB"],
  [1024 ** 2, "MiB"],
  [1024 ** 3, "GiB"],
  [1024 ** 4, "TiB"],
];
const COUNTS: readonly Step[] = [
  [1, ""],
  [1e3, "K"],
  [1e6, "M"],
  [1e9, "G"],
];
const PERCENT: readonly Step[] = [[1, "%"]];
const LADDERS: Record<string, readonly Step[]> = {
  ns: [
    [1, "ns"],
    [1e3, "µs"],
    [1e6, "ms"],
    [1e9, "s"],
  ],
  us: [
    [1, "µs"],
    [1e3, "ms"],
    [1e6, "s"],
  ],
  bytes: BYTES,
  "bytes/s": BYTES,
  ticks: [[1, " ticks"]],
};

const ladder = (unit: string) => LADDERS[unit] ?? COUNTS;
const isRate = (unit: string) => unit === "percent" || unit.endsWith("/s");

function threeDigits(value: number): string {
  return value < 9.995 ? value.toFixed(2) : value < 99.95 ? value.toFixed(1) : value.toFixed(0);
}

/** An unsigned whole number with its unit. */
function scaled(number: number, unit: string): string {
  if (unit === "percent/100") return `${Math.floor(number / 100)}.${String(number % 100).padStart(2, "0")}%`;
  return stepped(number, ladder(unit), `${number}`);
}

/** A number in the step that suits it; `lowest` is the number in the lowest one. */
function stepped(number: number, steps: readonly Step[], lowest: string): string {
  let at = Math.max(
    0,
    steps.findLastIndex(([size]) => number >= size),
  );
  for (;;) {
    const [size, name] = steps[at] ?? [1, ""];
    const digits = at === 0 ? lowest : threeDigits(number / size);
    const next = steps[at + 1];
    if (!next || Number(digits) * size < next[0]) return `${digits}${name}`;
    at += 1;
  }
}

function rate(number: number, unit: string): string {
  const digits = number === 0 ? "0" : number < 9.95 ? number.toFixed(1) : number.toFixed(0);
  return stepped(number, unit === "percent" ? PERCENT : ladder(unit), digits);
}

/** A number in a unit. */
export function numberText(number: number, unit: string): string {
  if (isRate(unit)) return rate(number, unit);
  if (unit === "ratio") return number.toFixed(3);
  return number < 0 ? `−${scaled(-number, unit)}` : scaled(number, unit);
}

function signed(number: number, unit: string): string {
  const text = numberText(Math.abs(number), unit);
  return number === 0 && !isRate(unit) && unit !== "ratio" ? text : `${number < 0 ? "−" : "+"}${text}`;
}

/** CPU numbers in the kernel's list format. */
function ranges(cpus: number[]): string {
  const runs: [number, number][] = [];
  for (const cpu of cpus) {
    const last = runs.at(-1);
    if (last?.[1] === cpu - 1) last[1] = cpu;
    else runs.push([cpu, cpu]);
  }
  return runs.map(([first, last]) => (first === last ? `${first}` : `${first}-${last}`)).join(",");
}

export function cellText(cell: Cell | null, unit: string): string {
  if (cell === null) return "-";
  if (typeof cell === "number") return numberText(cell, unit);
  if (typeof cell === "string") return cell;
  if ("min" in cell) {
    const [least, most] = [cellText(cell.min, unit), cellText(cell.max, unit)];
    return cell.min === cell.max ? least : `${least}..${most}`;
  }
  if ("value" in cell) return cell.count === cell.total ? cell.value : `${cell.value} (${cell.count}/${cell.total})`;
  if (cell.cpus) return `${cell.fewest} cpus (${ranges(cell.cpus)})`;
  return cell.fewest === cell.most ? `${cell.fewest} cpus (mixed)` : `${cell.fewest}-${cell.most} cpus (mixed)`;
}

/** A value outside of a column whose heading says that it is per second. */
export function valueText(cell: Cell | null, unit: string): string {
  return cellText(cell, unit) + (cell !== null && unit.endsWith("/s") ? "/s" : "");
}

function pair(least: number, most: number): string {
  const [first, second] = [signed(least, "count"), signed(most, "count")];
  return least === most ? first : `${first} / ${second}`;
}

function otherDelta(delta: Delta, unit: string): string {
  if (typeof delta === "string") return delta;
  if ("min" in delta) return pair(delta.min, delta.max);
  if ("from" in delta) return `${cellText(delta.from, unit)} → ${cellText(delta.to, unit)}`;
  return delta.changed ? "changed" : pair(delta.fewest, delta.most);
}

export function deltaText({ cells, delta, value }: Row): string {
  if (delta !== null) return otherDelta(delta, value.unit);
  const [baseline = null, candidate = null] = cells;
  if (typeof baseline !== "number" || typeof candidate !== "number") {
    return baseline !== null && JSON.stringify(baseline) === JSON.stringify(candidate) ? "same" : "-";
  }
  return signed(candidate - baseline, value.unit);
}

export function percentText(percent: number | null): string {
  return percent === null ? "" : `${percent < 0 ? "−" : "+"}${Math.abs(percent).toFixed(1)}%`;
}

/** A ratio as a change, as in src/report/verdict.rs. */
function ratioText(ratio: number | null): string {
  if (ratio === null) return "∞";
  return ratio >= 10 ? `×${ratio.toFixed(0)}` : percentText((ratio - 1) * 100);
}

/** Both ends of the interval of a change. */
export function intervalText(interval: Row["interval"]): string {
  if (interval === null) return "";
  const [low, high] = interval.map(ratioText);
  return `${high?.endsWith("%") ? (low ?? "").replace("%", "") : (low ?? "")}..${high ?? ""}`;
}

/** The unit after a heading: values per second have no unit of their own. */
export const headingOf = (name: string, unit: string): string => (unit.endsWith("/s") ? `${name}/s` : name);

/** A count with its noun: `1 group`, `2 groups`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;

const ESCAPES: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Text from a snapshot with control and bidirectional characters escaped, as in src/report/escape.rs. */
export function visible(text: string): string {
  const steering = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
  return text.replace(steering, (one) => ESCAPES[one] ?? `\\u{${(one.codePointAt(0) ?? 0).toString(16)}}`);
}
