// Why threads waited: the reasons of each group as bars, and who took CPUs from whom.

import { TIMES, type App } from "./app";
import { active, bars, columnOf, partsOf, scaleOf, type Part, type Scaled } from "./bars";
import { changeOf, numbersOf, textOf, type Group, type Report, type Row, type Section } from "./data";
import { folded, html, legend, note } from "./dom";
import { counted, numberText } from "./format";
import { hasFunctions, icicles } from "./icicle";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

const NONE_THEN = "No thread was sampled in this period but those that were idle.";
const NOTE =
  "Bars are the time in which threads were not idle: each part is a reason. Times come from counters, their shares from samples.";

const FUNCTIONS =
  "Below each reason are the functions of its most frequent stack, the outermost first. Kinds of time without functions are left out.";

/** Reasons of a group that are named; all are among the values. */
const NAMED = 5;
/** Victims and culprits of the matrix, and groups with icicles. */
const MOST = 20;

export const hasWhy = (report: Report): boolean => (report.sections.get("reasons")?.groups.length ?? 0) > 0;

export function why({ report }: App): HTMLElement {
  const section = report.sections.get("reasons");
  if (!section || section.groups.length === 0) return html("p", {}, NONE_THEN);
  const all = lines(section);
  const [awake, asleep] = [all.filter(({ size }) => size > 0), all.filter(({ size }) => size === 0)];
  const scaled = { scale: scaleOf(all.map(({ sides }) => sides)), capacity: report.document.capacity };
  const drawn = (label: string, list: Line[]) => [
    table(label, columns(report, scaled), list),
    ...functions(list, report),
  ];
  const only = `${counted(asleep.length, "group")} that only slept`;
  return html(
    "div",
    { class: "why" },
    html("div", { class: "toolbar" }, legend(TIMES.map((name) => [name, name]))),
    ...drawn("Reasons", awake),
    asleep.length > 0 && folded(only, ...drawn("Reasons of groups that only slept", asleep)),
    note(`${NOTE} ${section.notes.join("; ")}`),
    html("h3", {}, "Who ran while others waited for a CPU"),
    matrix(section) ?? html("p", {}, "No thread was seen waiting for a CPU that another one ran on."),
  );
}

/** Icicles of the first groups whose functions are known. */
function functions(all: Line[], report: Report): HTMLElement[] {
  const list = all.filter(({ rows }) => rows.some(hasFunctions));
  const [first, ...others] = list
    .slice(0, MOST)
    .map(({ group, rows }) => folded(group.label, ...icicles(rows, report)));
  if (!first) return [];
  first.open = true;
  const more = list.length > MOST ? ` ${counted(list.length - MOST, "more group")} not drawn.` : "";
  return [html("h3", {}, "Functions that led there"), note(FUNCTIONS + more), first, ...others];
}

interface Line {
  group: Group;
  /** Without idle time, the largest first; of two sides, those that changed most. */
  rows: Row[];
  /** The parts of the bar of each side. */
  sides: Part[][];
  /** How long threads ran, waited and were blocked, or how much of that changed. */
  size: number;
}

const sizeOf = (row: Row): number => Math.abs(changeOf(row) ?? 0);

/** The groups that waited and were blocked most come first. */
function lines(section: Section): Line[] {
  const rows = new Map<Group, Row[]>();
  for (const row of section.rows) {
    if (row.value.reason?.class !== "idle") rows.set(row.group, [...(rows.get(row.group) ?? []), row]);
  }
  const sidesOf = (list: Row[]) =>
    partsOf(TIMES.flatMap((name) => list.filter((row) => columnOf(row.value.name) === name)));
  const sum = (list: Row[], names: string[]) =>
    list.reduce((all, row) => (names.includes(columnOf(row.value.name)) ? all + sizeOf(row) : all), 0);
  const all = [...rows].map(([group, list]) => ({
    group,
    rows: sortedBy(list, false, sizeOf),
    sides: sidesOf(list),
    size: Math.max(sum(list, ["run", "wait", "block"]), ...sidesOf(list).map(active)),
  }));
  return sortedBy(all, false, (line) => sum(line.rows, ["wait", "block"]));
}

function columns(report: Report, scaled: Scaled): Column<Line>[] {
  const bar = ({ group, sides }: Line) => bars(group.label, sides, scaled);
  const text = ({ rows }: Line) => rows.slice(0, NAMED).map(named).join("; ");
  const length = scaled.scale ? `, 0 to ${numberText(scaled.scale, report.scale(unitOf(report)))}` : "";
  return [
    { key: "group", text: "group", kind: "name", cell: ({ group }) => group.label },
    { key: "bar", text: `time${length}`, kind: "bar", copy: null, cell: bar },
    { key: "reasons", text: `largest ${report.two ? "changes" : "reasons"}`, cell: names, copy: text },
  ];
}

const unitOf = (report: Report): string => report.sections.get("reasons")?.rows[0]?.value.unit ?? "";

const named = ({ value, delta, cells }: Row): string => `${value.name} ${(delta ?? cells[0])?.text ?? "-"}`;

function names({ rows }: Line): HTMLElement {
  const entry = (row: Row) => html("li", {}, html("span", { class: `swatch ${columnOf(row.value.name)}` }), named(row));
  return html("ul", {}, ...rows.slice(0, NAMED).map(entry));
}

/** Victims by culprits; `null` if there are none. */
function matrix(section: Section): HTMLElement | null {
  const rows = section.rows.filter(({ value: { reason } }) => reason?.class === "wait" && reason.by !== null);
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
    const element = html("span", { class: "heat wait" }, textOf(wait.row));
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
