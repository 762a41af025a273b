// Stacked bars: where the time of a group went.

import { TIMES } from "./app";
import type { Group, Row } from "./data";
import { svg } from "./dom";
import { SIDES } from "./dots";
import { drawing, mark, type Lines } from "./marks";

/** A part of a bar: its color, its length, and what it says. */
export interface Part {
  name: string;
  value: number;
  lines: Lines;
}

/** The column of the overview that a reason belongs to, or that a value is. */
export const columnOf = (name: string): string => name.split(":")[0] ?? "";

/** The parts of a bar per side. */
export const partsOf = (rows: Row[]): Part[][] =>
  (rows[0]?.cells ?? []).map((_, side) =>
    rows.map(({ group, value, cells }) => ({
      name: columnOf(value.name),
      value: cells[side]?.number ?? 0,
      lines: [`${group.label}: ${value.name} ${cells[side]?.text ?? ""}`, cells.length > 1 && SIDES[side], value.doc],
    })),
  );

/** The parts of a group's time on each side. */
const times = (group: Group): Part[][] =>
  partsOf(TIMES.map((name) => group.section.values.get(name)?.row.get(group)).filter((row) => row !== undefined));

/** The time in which threads were not asleep. */
export const active = (parts: Part[]): number =>
  parts.reduce((sum, { name, value }) => (name === "sleep" ? sum : sum + value), 0);

/** A bar is at most this much longer than that of the fifth group, so that one group does not make all others invisible. */
const MOST_TIMES = 50;

/** The length of bars on a common scale: the longest time that a group was not asleep. */
export function scaleOf(groups: Part[][][]): number {
  const longest = groups.map((sides) => Math.max(0, ...sides.map(active))).sort((a, b) => b - a);
  const [first = 0, , , , fifth = 0] = longest;
  return fifth > 0 ? Math.min(first, MOST_TIMES * fifth) : first;
}

export const scaleOfTimes = (groups: Group[]): number => scaleOf(groups.map(times));

/** What bars are drawn on: the time of a whole bar, and what all CPUs can do. */
export interface Scaled {
  scale: number;
  capacity: number | null;
}

export const barsOfTimes = (group: Group, scaled: Scaled): SVGElement => bars(group.label, times(group), scaled);

const [WIDTH, HEIGHT, GAP] = [200, 9, 3];

/** The bars of a group, one per side. A line marks all CPUs of the host. */
export function bars(label: string, sides: Part[][], { scale, capacity }: Scaled): SVGElement {
  const rows = sides.map((parts, side) => svg("g", {}, ...stack(parts, side * (HEIGHT + GAP), scale)));
  const height = sides.length * (HEIGHT + GAP) - GAP;
  const all =
    capacity !== null &&
    capacity < scale &&
    svg("rect", { class: "capacity", x: (capacity / scale) * WIDTH, width: 1, height });
  return drawing("bars", `Time of ${label}`, [WIDTH, height], ...rows, all);
}

function stack(parts: Part[], top: number, whole: number): SVGElement[] {
  let left = 0;
  const rects: SVGElement[] = [];
  for (const { name, value, lines } of parts) {
    const width = Math.min(WIDTH - left, (value / (whole || 1)) * WIDTH);
    const [x, shown] = [left.toFixed(2), Math.max(0.2, width - 0.4).toFixed(2)];
    if (width > 0) rects.push(mark("rect", { class: name, x, y: top, width: shown, height: HEIGHT }, ...lines));
    left += width;
  }
  if (active(parts) > whole * 1.001)
    rects.push(svg("rect", { class: "cut", x: WIDTH - 6, y: top, width: 2, height: HEIGHT }));
  return rects;
}
