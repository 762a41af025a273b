// Stacked bars: where the time of a group went.

import { TIMES } from "./app";
import type { Dots, Group, Report } from "./data";
import { svg } from "./dom";
import { numberText } from "./format";

/** The parts of a group's time on each side; `null` where it is unknown. */
export function times(group: Group): (number | null)[][] {
  const rows = TIMES.map((name) => group.section.values.get(name)?.row.get(group));
  const sides = rows.find((row) => row)?.cells ?? [];
  return sides.map((_, side) => rows.map((row) => row?.cells[side]?.number ?? null));
}

const active = (parts: (number | null)[]): number =>
  parts.slice(0, 3).reduce<number>((sum, part) => sum + (part ?? 0), 0);

/** A bar is at most this much longer than that of the fifth group, so that one group does not make all others invisible. */
const MOST_TIMES = 50;

/** The length of a bar on the common scale: the longest time that a group was not asleep. */
export function scaleOf(groups: Group[]): number {
  const longest = groups.map((group) => Math.max(0, ...times(group).map(active))).sort((a, b) => b - a);
  const [first = 0, , , , fifth = 0] = longest;
  return fifth > 0 ? Math.min(first, MOST_TIMES * fifth) : first;
}

const [WIDTH, HEIGHT, GAP] = [200, 9, 3];

/** The bars of a group, one per side. Without a common scale, a bar is all of the group's time; with one, a line marks all CPUs of the host. */
export function bars(group: Group, { scale, capacity }: { scale: number | null; capacity: number | null }): SVGElement {
  const sides = times(group);
  const rows = TIMES.map((name) => group.section.values.get(name)?.row.get(group)).filter((row) => row !== undefined);
  const labels = sides.map((_, side) => {
    const known = rows.filter(({ cells }) => (cells[side]?.number ?? null) !== null);
    return known.map(({ value, cells }) => `${value.name} ${cells[side]?.text ?? ""}`).join(", ");
  });
  const rects = sides.flatMap((parts, side) => stack(parts, side * (HEIGHT + GAP), scale));
  const height = sides.length * (HEIGHT + GAP) - GAP;
  if (scale !== null && capacity !== null && capacity < scale)
    rects.push(svg("rect", { class: "capacity", x: (capacity / scale) * WIDTH, width: 1, height }));
  return svg(
    "svg",
    {
      class: "bars",
      viewBox: `0 0 ${WIDTH} ${height}`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": labels.join(" → "),
    },
    ...rects,
  );
}

function stack(parts: (number | null)[], top: number, scale: number | null): SVGElement[] {
  const whole = scale ?? parts.reduce<number>((sum, part) => sum + (part ?? 0), 0);
  if (whole === 0) return [];
  let left = 0;
  const rects: SVGElement[] = [];
  TIMES.forEach((name, at) => {
    const width = Math.min(WIDTH - left, ((parts[at] ?? 0) / whole) * WIDTH);
    if (width > 0)
      rects.push(svg("rect", { class: name, x: left.toFixed(2), y: top, width: width.toFixed(2), height: HEIGHT }));
    left += width;
  });
  if (active(parts) > whole * 1.001)
    rects.push(svg("rect", { class: "cut", x: WIDTH - 6, y: top, width: 2, height: HEIGHT }));
  return rects;
}

/** A line of dots per side, a dot per run, on one scale from the least to the most. */
export function dots({ unit, runs }: Dots, report: Report): SVGElement {
  const all = runs.flat().filter((value) => value !== null);
  const [least, most] = [Math.min(...all), Math.max(...all)];
  const at = (value: number) => 3 + ((value - least) / (most - least || 1)) * 114;
  const names = ["baseline", "candidate"];
  const circles = runs.flatMap((values, side) =>
    values
      .filter((value) => value !== null)
      .map((value) => svg("circle", { class: names[side], cx: at(value).toFixed(1), cy: 4 + side * 7, r: 2.5 })),
  );
  const text = (value: number | null) => (value === null ? "-" : numberText(value, report.scale(unit)));
  const label = runs.map((values, side) => `${names[side] ?? ""} ${values.map(text).join(", ")}`).join("; ");
  return svg("svg", { class: "dots", viewBox: "0 0 120 15", role: "img", "aria-label": label }, ...circles);
}
