// What the page has of a selected period of a series: what groups did in it, and why they waited.

import type { App } from "./app";
import { copier } from "./copy";
import { average, endOf, isWhole, partOf, periodOf, sinceText, startOf, type Period } from "./trends";
import { keyOf, Report, type Trends, type TrendColumn, type Document, type SectionData } from "./data";
import { html } from "./dom";
import { numberText } from "./format";
import { sortedBy } from "./sorting";

/** The column over time that is no column of values in the overview. */
const THREADS = "thread_count";

/** What a view shows if a period is selected. */
export type Follows = "period" | "whole";

/** A value with its averages in a period, by group. */
type Rates = SectionData["values"][number] & { rates: Map<number, number | null> };

interface Selected {
  trends: Trends;
  period: Period;
}

/** The selected period, if it is not the whole series. */
function selected({ report, state }: App): Selected | null {
  const { trends } = report.document;
  const period = trends && periodOf(trends, state.get("period"));
  return trends && period && !isWhole(trends, period) ? { trends, period } : null;
}

/** The same page of the selected period: what groups did in it on average, and why. */
export function ofPeriod(app: App): App {
  const found = selected(app);
  return found ? { ...app, report: reportOf(app.report, found) } : app;
}

function reportOf(whole: Report, { trends, period }: Selected): Report {
  const columns = trends.columns.filter(({ groups, name }) => groups.length > 0 && name !== THREADS);
  const threads = trends.columns.find(({ name }) => name === THREADS);
  const rate = (column: TrendColumn | undefined, group: number) => {
    const values = column?.values[column.groups.indexOf(group)];
    if (!values) return null;
    // Gauges have the value that they had at the end.
    const isRate = column.unit === "percent" || column.unit.endsWith("/s");
    return isRate ? average(trends, values, period) : (values[period[1]] ?? null);
  };
  const all = [...new Set(columns.flatMap(({ groups }) => groups))];
  const cells: Document["cells"] = [];
  const cell = (number: number | null, unit: string) =>
    cells.push([number === null ? "-" : numberText(number, whole.scale(unit)), number]) - 1;
  const section = (name: string, values: Rates[], groups: number[], notes: string[] = []): SectionData => ({
    section: name,
    doc: whole.sections.get(name)?.doc ?? "",
    notes,
    groups: groups.map((path) => ({ path, threads: cell(rate(threads, path), "count") })),
    values,
    rows: values.flatMap(({ unit, rates }, value) =>
      [...rates].map(([group, rate]): [number, number, number] => [groups.indexOf(group), value, cell(rate, unit)]),
    ),
  });
  const groups = sortedBy(all, false, (group) => rate(columns[0], group));
  const values = columns.map(({ name, unit }, at): Rates => {
    const ofWhole = whole.overview?.values.get(name);
    const zero = (group: number) => (isZero(whole, name, group) ? 0 : null);
    const rates = new Map(groups.map((group) => [group, rate(columns[at], group) ?? zero(group)]));
    return { name, unit, doc: ofWhole?.doc ?? "", rates };
  });
  const reasons = reasonsOf(trends, period);
  const sampled = [...new Set(reasons.flatMap(({ rates }) => [...rates.keys()]))];
  const left = trends.groups_without_reasons;
  const notes = left > 0 ? [`${left} groups that ran and waited less in the whole recording are left out`] : [];
  const sections = [section("overview", values, groups), section("reasons", reasons, sampled, notes)];
  return new Report({ ...whole.document, cells, sections, tree: null });
}

/** The reasons that groups had in a period. */
function reasonsOf(trends: Trends, period: Period): Rates[] {
  const byKey = new Map<string, Rates>();
  for (const { name, reason, unit, group, values } of trends.reasons) {
    const rate = average(trends, values, period) ?? 0;
    // Groups with the same reason have stacks of their own.
    const key = keyOf([name, ...reason.stack]);
    const found = byKey.get(key) ?? { name, reason, unit, rates: new Map<number, number>() };
    if (rate > 0) byKey.set(key, found);
    if (rate > 0) found.rates.set(group, rate);
  }
  return [...byKey.values()];
}

/** Whether a group that is not among those of a column did nothing at any time. */
function isZero(whole: Report, name: string, group: number): boolean {
  const key = keyOf(whole.pathOf(group));
  return whole.overview?.values.get(name)?.rows.find((row) => row.group.key === key)?.cells[0]?.number === 0;
}

/** Whether the page has reasons of periods. */
export const hasReasons = ({ report }: App): boolean => (report.document.trends?.reasons.length ?? 0) > 0;

/** The name of a part of a recording, to be copied, and what is said of it. */
export function partLine(app: App, text: string, trends: Trends, period: Period): HTMLElement {
  const part = partOf(trends, app.report.document.file, period);
  const all = html("a", { href: app.state.link({ period: "" }) }, "Select the whole recording");
  const copy = copier("Copy its name", () => part);
  return html("p", { class: "part" }, text, html("code", {}, `ctprof show ${part}`), " ", copy, " ", all);
}

/** Of which time a view is; nothing where that is all of it. */
export function remark(app: App, follows: Follows): HTMLElement | null {
  const found = selected(app);
  if (!found) return null;
  const { trends, period } = found;
  const [from, to] = [sinceText(startOf(trends, period[0])), sinceText(endOf(trends, period[1]))];
  const text = follows === "period" ? `From ${from} to ${to}. ` : `Of the whole recording. From ${from} to ${to}: `;
  return partLine(app, text, trends, period);
}
