// What the page has of a selected period of a series: what groups did in it, and why they waited.

import type { App } from "./app";
import { average, commandOf, endOf, isWhole, periodOf, sinceText, startOf, type Period } from "./course";
import { keyOf, Report, type Course, type CourseColumn, type CourseReason, type SectionData } from "./data";
import { html } from "./dom";
import { sortedBy } from "./sorting";

/** What a view shows if a period is selected. */
export type Follows = "period" | "whole";

interface Selected {
  course: Course;
  period: Period;
}

/** The selected period, if it is not the whole course. */
function selected({ report, state }: App): Selected | null {
  const { course } = report.document;
  const period = course && periodOf(course, state.get("period"));
  return course && period && !isWhole(course, period) ? { course, period } : null;
}

/** The same page of the selected period: what groups did in it on average, and why. */
export function ofPeriod(app: App): App {
  const found = selected(app);
  return found ? { ...app, report: reportOf(app.report, found) } : app;
}

function reportOf(whole: Report, { course, period }: Selected): Report {
  const columns = course.columns.filter(({ groups }) => groups.length > 0);
  const rate = (column: CourseColumn | undefined, group: number) => {
    const values = column?.values[column.groups.indexOf(group)];
    return values ? average(course, values, period) : null;
  };
  const all = [...new Set(columns.flatMap(({ groups }) => groups))];
  const groups = sortedBy(all, false, (group) => rate(columns[0], group));
  const values = columns.map((column) => ({
    name: column.name,
    unit: column.unit,
    doc: whole.overview?.values.get(column.name)?.doc ?? "",
    baseline: groups.map((group) => rate(column, group) ?? (isZero(whole, column, group) ? 0 : null)),
  }));
  const overview = { ...sectionOf("overview", whole, groups), values };
  return new Report({ ...whole.document, sections: [overview, reasonsOf(whole, course, period)], tree: null });
}

/** A section without values. */
function sectionOf(name: string, whole: Report, groups: number[]): SectionData {
  return {
    section: name,
    doc: whole.sections.get(name)?.doc ?? "",
    groups,
    values: [],
    members: groups.map(() => [null]),
    cut: 0,
    hidden: {},
    ...{ notes: [], name_cut: [], renamed: [], exited_work: [], turnover: [] },
  };
}

function reasonsOf(whole: Report, course: Course, period: Period): SectionData {
  const sampled = course.reasons.map((reason) => ({ ...reason, rate: average(course, reason.values, period) }));
  const found = sampled.filter(({ rate }) => rate > 0);
  const groups = [...new Set(found.map(({ group }) => group))];
  const byName = new Map<string, (CourseReason & { rate: number })[]>();
  for (const one of found) byName.set(one.name, [...(byName.get(one.name) ?? []), one]);
  const values = [...byName].map(([name, of]) => ({
    name,
    reason: of[0]?.reason,
    unit: of[0]?.unit ?? "",
    places: of.map(({ group }) => groups.indexOf(group)),
    baseline: of.map(({ rate }) => rate),
  }));
  const left = course.groups_without_reasons;
  const message = `${left} groups that ran and waited less in the whole recording are left out`;
  const notes = left > 0 ? [{ code: "groups-left-out", message }] : [];
  return { ...sectionOf("reasons", whole, groups), values, notes };
}

/** Whether a group that is not among those of a column did nothing at any time. */
function isZero(whole: Report, { name }: CourseColumn, group: number): boolean {
  const key = keyOf(whole.pathOf(group));
  const row = whole.overview?.values.get(name)?.rows.find((one) => one.group.key === key);
  return row?.cells[0] === 0;
}

/** Whether the page has reasons of periods. */
export const hasReasons = ({ report }: App): boolean => (report.document.course?.reasons.length ?? 0) > 0;

/** Of which time a view is; nothing where that is all of it. */
export function remark(app: App, follows: Follows): HTMLElement | null {
  const found = selected(app);
  if (!found) return null;
  const { course, period } = found;
  const [from, to] = [sinceText(startOf(course, period[0])), sinceText(endOf(course, period[1]))];
  const command = html("code", {}, commandOf(course, app.report.captures[0]?.file ?? "", period));
  const text =
    follows === "period"
      ? `From ${from} to ${to}, per group. Threads, and all other values of this period: `
      : `Of the whole recording. From ${from} to ${to}: `;
  const all = html("a", { href: app.state.link({ period: "" }) }, "Select the whole recording");
  return html("p", { class: "note" }, text, command, ". ", all);
}
