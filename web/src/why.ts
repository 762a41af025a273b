// Why threads waited: the reasons of each group as bars, and who took CPUs from whom.

import { TIMES, type App } from "./app";
import { changeOf, numbersOf, type Group, type Report, type Row, type Section } from "./data";
import { html, svg } from "./dom";
import { numberText } from "./format";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

const NONE = "The report has no reasons. They are in windows that ctprof record sampled.";
const NONE_THEN = "No thread was sampled in this period but those that were idle.";
const NOTE =
  "Bars are the time in which threads were not idle: each part is a reason. Times come from counters, their shares from samples.";

/** Reasons of a group that are named; all are among the values. */
const NAMED = 5;
/** Victims and culprits of the matrix. */
const MOST = 20;

export const hasWhy = (report: Report): boolean => (report.sections.get("reasons")?.groups.length ?? 0) > 0;

export function why({ report }: App): HTMLElement {
  const section = report.sections.get("reasons");
  if (!section || section.groups.length === 0) return html("p", {}, section?.doc ? NONE_THEN : NONE);
  return html(
    "div",
    { class: "why" },
    table("Reasons", columns(report), lines(section)),
    html("p", { class: "note" }, `${NOTE} ${section.notes.join("; ")}`),
    html("h2", {}, "Who ran while others waited for a CPU"),
    matrix(section) ?? html("p", {}, "No thread was seen waiting for a CPU that another one ran on."),
  );
}

interface Line {
  group: Group;
  /** Without idle time, the largest first; of two sides, those that changed most. */
  rows: Row[];
}

function lines(section: Section): Line[] {
  const rows = new Map<Group, Row[]>();
  for (const value of section.values.values()) {
    if (value.reason?.class === "idle") continue;
    for (const row of value.rows) rows.set(row.group, [...(rows.get(row.group) ?? []), row]);
  }
  const size = (row: Row) => Math.abs(changeOf(row) ?? 0);
  const all = [...rows].map(([group, list]) => ({ group, rows: sortedBy(list, false, size) }));
  return sortedBy(all, false, (line) => line.rows.reduce((sum, row) => sum + size(row), 0));
}

function columns(report: Report): Column<Line>[] {
  return [
    { key: "group", text: "group", kind: "name", cell: ({ group }) => group.label },
    { key: "bar", text: "time", cell: (line) => bars(line, report) },
    { key: "reasons", text: report.two ? "largest changes" : "largest reasons", cell: names },
  ];
}

const columnOf = ({ value }: Row): string => value.name.slice(0, value.name.indexOf(":"));

function names({ rows }: Line): HTMLElement {
  const text = ({ delta, cells }: Row) => (delta ?? cells[0])?.text ?? "-";
  const entry = (row: Row) =>
    html("li", {}, html("span", { class: `swatch ${columnOf(row)}` }), `${row.value.name} ${text(row)}`);
  return html("ul", {}, ...rows.slice(0, NAMED).map(entry));
}

const [WIDTH, HEIGHT, GAP] = [200, 9, 3];

/** One bar per side, with a part for each reason, in the order of the columns of the overview. */
function bars({ rows }: Line, report: Report): SVGElement {
  const sides = rows[0]?.cells.length ?? 1;
  const numbers = (row: Row) => numbersOf(row) ?? [];
  const sums = Array.from({ length: sides }, (_, side) =>
    rows.reduce((sum, row) => sum + (numbers(row)[side] ?? 0), 0),
  );
  const whole = Math.max(...sums);
  const ordered = TIMES.flatMap((name) => rows.filter((row) => columnOf(row) === name));
  const rects = sums.flatMap((_, side) => {
    let left = 0;
    return ordered.flatMap((row) => {
      const width = whole > 0 ? ((numbers(row)[side] ?? 0) / whole) * WIDTH : 0;
      const [x, y] = [left, side * (HEIGHT + GAP)];
      left += width;
      // A gap between two reasons of one color.
      const shown = Math.max(0, width - 0.6);
      if (shown === 0) return [];
      const title = svg("title", {}, `${row.value.name} ${row.cells[side]?.text ?? ""}`);
      const attributes = { class: columnOf(row), x: x.toFixed(2), y, width: shown.toFixed(2), height: HEIGHT };
      return [svg("rect", attributes, title)];
    });
  });
  const height = sides * (HEIGHT + GAP) - GAP;
  const labels = sums.map((sum) => numberText(sum, report.scale(rows[0]?.value.unit ?? "")));
  const attributes = { class: "bars", viewBox: `0 0 ${WIDTH} ${height}`, preserveAspectRatio: "none", role: "img" };
  return svg("svg", { ...attributes, "aria-label": `${labels.join(" → ")} not idle` }, ...rects);
}

/** Victims by culprits; `null` if there are none. */
function matrix(section: Section): HTMLElement | null {
  const rows = [...section.values.values()]
    .filter(({ reason }) => reason?.class === "wait" && reason.by !== null)
    .flatMap((value) => value.rows);
  const waits = rows.map((row) => {
    const by = row.value.reason?.by ?? "";
    return { row, culprit: by === "itself" ? row.group.name : by, time: Math.max(0, ...(numbersOf(row) ?? [])) };
  });
  const most = <T>(key: (wait: (typeof waits)[number]) => T): T[] => {
    const sums = new Map<T, number>();
    for (const wait of waits) sums.set(key(wait), (sums.get(key(wait)) ?? 0) + wait.time);
    return sortedBy([...sums], false, ([, sum]) => sum)
      .slice(0, MOST)
      .map(([name]) => name);
  };
  const [victims, culprits] = [most(({ row }) => row.group), most(({ culprit }) => culprit)];
  if (victims.length === 0) return null;
  const largest = Math.max(...waits.map(({ time }) => time));
  const cell = (victim: Group, culprit: string) => {
    const wait = waits.find(({ row, culprit: by }) => row.group === victim && by === culprit);
    if (!wait || wait.time === 0) return "";
    const text = [...new Set(wait.row.cells.map(({ text }) => text))].join(" → ");
    const element = html("span", { class: "heat" }, text);
    element.style.setProperty("--heat", (wait.time / largest).toFixed(2));
    return element;
  };
  const column = (culprit: string, at: number): Column<Group> => ({
    key: `culprit-${at}`,
    text: `${culprit} ran`,
    kind: "number",
    cell: (victim) => cell(victim, culprit),
  });
  const first: Column<Group> = { key: "victim", text: "waited", kind: "name", cell: (group) => group.label };
  return table("Who ran while others waited for a CPU", [first, ...culprits.map(column)], victims);
}
