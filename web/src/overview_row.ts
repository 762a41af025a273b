// A row of the overview: its name, bars and values.

import { barsOfTimes } from "./bars";
import { changeOf, isUnclear, type Group, type Report, type Row, type Value } from "./data";
import { html } from "./dom";
import { dots } from "./dots";
import { says, type Lines } from "./marks";
import type { Line } from "./outline";

/** What all rows have in common. */
export interface Rows {
  report: Report;
  /** Whether there is a column with what changed most. */
  hasChange: boolean;
  columns: Value[];
  /** The largest change of each column, or its largest value. */
  largest: Map<Value, number>;
  /** The time of a whole bar. */
  scale: number;
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

export const THREADS = "Threads at the end; in brackets, + started and − exited meanwhile, and who started them.";

export function overviewRow({ group, depth }: Line, rows: Rows, expander: Expander | null): HTMLElement {
  const name = html("th", { scope: "row", class: "name" }, label({ group, depth }, rows, expander));
  name.style.setProperty("--depth", String(depth));
  return html(
    "tr",
    { class: depth > 0 && "below", "data-key": group.key },
    name,
    html("td", { class: "time" }, timeBars(group, rows)),
    rows.hasChange && html("td", { class: "verdict" }, html("span", {}, group.verdict), group.dots && dots(group.dots)),
    html(
      "td",
      { class: "number threads", tabindex: -1, ...says(`${group.label}: ${group.threads?.text ?? "-"}`, THREADS) },
      html("span", {}, group.threads?.text),
    ),
    ...rows.columns.map((value) => cell(group, value, rows)),
  );
}

/** The bars are reached by the arrows of the row. */
function timeBars(group: Group, rows: Rows): SVGElement {
  const element = barsOfTimes(group, rows);
  element.setAttribute("tabindex", "-1");
  return element;
}

function label({ group, depth }: Line, rows: Rows, expander: Expander | null): HTMLElement {
  // Below a group by name are cgroups that have such processes or threads.
  const isOtherTree = depth > 0 && expander !== null && group.section.values !== rows.columns[0]?.section.values;
  const text = isOtherTree ? group.label : group.name;
  const link = rows.link(group);
  return html(
    "span",
    { class: "label" },
    expander ? opener(group, expander) : html("span", { class: "expander" }),
    link === null ? html("span", {}, text) : html("a", { href: link, ...says(`All values of ${group.label}`) }, text),
    badge(group),
  );
}

function opener(group: Group, { isOpen, toggle }: Expander): HTMLElement {
  const attributes = { "aria-expanded": String(isOpen), "aria-label": `Threads of ${group.name}`, click: toggle };
  return html("button", { type: "button", class: "expander", ...attributes }, isOpen ? "▾" : "▸");
}

/** A mark of groups that only one side has. */
function badge({ only }: Group): HTMLElement | null {
  const title = only === "new" ? "only in the candidate" : "only in the baseline";
  return only ? html("span", { class: `badge ${only}`, ...says(title) }, only) : null;
}

/** The texts of both sides, or one text if they are equal. */
const distinct = (texts: string[]): HTMLElement[] => [...new Set(texts)].map((text) => html("span", {}, text));

/** A line below a group: why its time passes. */
export function whyRow({ why }: Group, { hasChange, columns }: Rows): HTMLElement | null {
  const lines = why.map((line) => html("div", {}, line));
  const colspan = columns.length + (hasChange ? 4 : 3);
  return lines.length > 0 ? html("tr", { class: "reasons" }, html("td", { colspan }, ...lines)) : null;
}

/** Smaller changes have no color, as a share of the largest one of the column. */
const LEAST_HEAT = 0.05;

function cell(group: Group, value: Value, { report, largest }: Rows): HTMLElement {
  const row = group.section.values.get(value.name)?.row.get(group);
  const texts = row?.cells.map(({ text }) => text) ?? [];
  const said = row ? says(...explained(row)) : {};
  const element = html("td", { class: "number", "data-value": value.name, tabindex: -1, ...said }, ...distinct(texts));
  const change = changeOf(row) ?? 0;
  const heat = Math.min(1, Math.abs(change) / Math.max(largest.get(value) ?? 0, Number.MIN_VALUE));
  // How long a group was asleep is not what it did, but can be what changed.
  if ((report.two || value.name !== "sleep") && heat > LEAST_HEAT && !(row && isUnclear(row))) {
    element.classList.add(!report.two ? "share" : change > 0 ? "more" : "less");
    element.style.setProperty("--heat", heat.toFixed(2));
  }
  return element;
}

/** A row in words: its values and their change, and the meaning. */
function explained({ group, value, cells, delta, percent, interval, verdict }: Row): Lines {
  const names = cells.length === 2 ? ["baseline", "candidate"] : ["value"];
  return [
    `${group.label}: ${value.name}`,
    ...cells.map(({ text }, at) => `${names[at] ?? ""}: ${text}`),
    ...(delta ? [`change: ${delta.text} ${percent?.text ?? ""}`] : []),
    ...(interval?.text ? [`95% interval: ${interval.text}`] : []),
    ...(verdict?.text ? [`verdict: ${verdict.text}`] : []),
    value.doc,
    cells.some(({ text }) => text.endsWith("*")) && "* some threads lack the value",
  ];
}
