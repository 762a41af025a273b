// A row of the overview: its name, bars and values.

import { bars, dots } from "./bars";
import { changeOf, isUnclear, type Group, type Row, type Value } from "./data";
import { html } from "./dom";
import { cellText, deltaText, intervalText, percentText, valueText } from "./format";
import type { Line } from "./outline";

/** What all rows have in common. */
export interface Rows {
  two: boolean;
  verdicts: boolean;
  columns: Value[];
  /** The largest change of each column, or its largest value. */
  largest: Map<Value, number>;
  /** The length of bars on a common scale; `null` if each is all of its group's time. */
  scale: number | null;
  /** What all CPUs of the host can do, on the same scale. */
  capacity: number | null;
  /** The address of all values of a group; `null` if they are not in the report. */
  link: (group: Group) => string | null;
}

/** Whether a row can be opened, and what that does. */
export interface Expander {
  isOpen: boolean;
  toggle: () => void;
}

export function overviewRow({ group, depth }: Line, rows: Rows, expander: Expander | null): HTMLElement {
  const name = html("th", { scope: "row", class: "name" }, label({ group, depth }, rows, expander));
  name.style.setProperty("--depth", String(depth));
  return html(
    "tr",
    { class: depth > 0 && "below", "data-key": group.key },
    name,
    html("td", { class: "time" }, bars(group.section, group, rows.scale, rows.capacity)),
    rows.verdicts &&
      html("td", { class: "verdict" }, ...(group.exitedWork ? [] : [group.verdict, group.dots && dots(group.dots)])),
    html("td", { class: "number" }, ...(group.exitedWork ? [] : threads(group, rows.two))),
    ...rows.columns.map((value) => cell(group, value, rows)),
  );
}

function label({ group, depth }: Line, rows: Rows, expander: Expander | null): HTMLElement {
  const path = group.path.join(" » ");
  // Below a group by name are cgroups that have such processes or threads.
  const isOtherTree = depth > 0 && expander !== null && group.section.values !== rows.columns[0]?.section.values;
  const text = `${group.renamed ? "≈ " : ""}${isOtherTree ? path : group.name}${group.cut ? "…" : ""}`;
  const link = rows.link(group);
  return html(
    "span",
    { class: "label" },
    expander ? opener(group, expander) : html("span", { class: "expander" }),
    link === null ? html("span", {}, text) : html("a", { href: link, title: `All values of ${path}` }, text),
    badge(group),
  );
}

function opener(group: Group, { isOpen, toggle }: Expander): HTMLElement {
  const attributes = { "aria-expanded": String(isOpen), "aria-label": `Threads of ${group.name}`, click: toggle };
  return html("button", { type: "button", class: "expander", ...attributes }, isOpen ? "▾" : "▸");
}

/** A mark of groups that only one side has. */
function badge({ members, exitedWork }: Group): HTMLElement | null {
  if (members.length < 2 || exitedWork || members.every((count) => count !== null)) return null;
  const [text, title] = members[0] === null ? ["new", "only in the candidate"] : ["gone", "only in the baseline"];
  return html("span", { class: `badge ${text}`, title }, text);
}

/** The texts of both sides, or one text if they are equal. */
const distinct = (texts: string[]): HTMLElement[] => [...new Set(texts)].map((text) => html("span", {}, text));

/** How many threads there are, and how many started and exited. */
function threads({ members, started, exited }: Group, two: boolean): HTMLElement[] {
  const changes = [started > 0 ? `+${started}` : "", exited > 0 ? `−${exited}` : ""].filter((text) => text !== "");
  const turnover = changes.length > 0 ? ` (${changes.join(" ")})` : "";
  const text = (count: number | null | undefined) => (typeof count === "number" ? String(count) : "-");
  const last = text(members.at(-1)) + turnover;
  return distinct(two ? [text(members[0]), last] : [last]);
}

/** Smaller changes have no color, as a share of the largest one of the column. */
const LEAST_HEAT = 0.05;

function cell(group: Group, value: Value, { two, largest }: Rows): HTMLElement {
  const row = group.section.values.get(value.name)?.row.get(group);
  const texts = row?.cells.map((one) => cellText(one, row.value.unit)) ?? [];
  const element = html("td", { class: "number", "data-value": value.name, tabindex: -1 }, ...distinct(texts));
  const change = changeOf(row) ?? 0;
  const heat = Math.min(1, Math.abs(change) / Math.max(largest.get(value) ?? 0, Number.MIN_VALUE));
  // Time asleep is not what a group did.
  if (value.name !== "sleep" && heat > LEAST_HEAT && !(row && isUnclear(row))) {
    element.classList.add(!two ? "share" : change > 0 ? "more" : "less");
    element.style.setProperty("--heat", heat.toFixed(2));
  }
  return element;
}

/** A row in words: its values and their change, and the meaning. */
export function explained(row: Row): string[] {
  const { group, value, cells } = row;
  const two = cells.length === 2;
  const names = two ? ["baseline", "candidate"] : ["value"];
  const change = [deltaText(row), percentText(row.percent)].filter((text) => text !== "").join(" ");
  return [
    `${group.path.join(" » ")}: ${value.name}`,
    ...cells.map((one, at) => `${names[at] ?? ""}: ${valueText(one, value.unit)}`),
    ...(two ? [`change: ${change}`] : []),
    ...(row.interval ? [`95% interval: ${intervalText(row.interval)}`] : []),
    ...(row.verdict ? [`verdict: ${row.verdict}`] : []),
    ...(row.partial ? ["excludes threads whose value could not be read"] : []),
    value.doc,
  ];
}
