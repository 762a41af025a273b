// cgroups: CPU time and throttling, memory against its limit, pressure.

import type { App } from "./app";
import { changeOf, UNKNOWN, type Cell, type Report, type Row } from "./data";
import { html, note } from "./dom";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

const SECTIONS = ["cgroup-stats", "cgroup-limits", "memory-events", "pressure"];

/** The rows of a cgroup, by section and name of the value. */
type Line = Map<string, Row>;

export const hasCgroups = (report: Report): boolean => read(report).length > 0;

export function cgroups({ report }: App): HTMLElement {
  const lines = read(report);
  const changed = (line: Line) => Math.abs(changeOf(line.get("cgroup-stats/cpu.usage_usec")) ?? 0);
  const sides = report.two ? "Upper line: baseline; lower: candidate. " : "";
  return html(
    "div",
    {},
    table("cgroups", columns(report.two ? [0, 1] : [0]), sortedBy(lines, false, changed)),
    note(`${sides}Pressure is the time in which some tasks / all tasks waited.`),
  );
}

function read(report: Report): Line[] {
  const lines = new Map<string, Line>();
  for (const name of SECTIONS) {
    for (const row of report.tree.get(name)?.rows ?? []) {
      const line = lines.get(row.group.key) ?? (new Map() as Line);
      lines.set(row.group.key, line.set(`${name}/${row.value.name}`, row));
    }
  }
  return [...lines.values()];
}

const nameOf = (line: Line): string => [...line.values()][0]?.group.name ?? "";

/** The cells of one side of a cgroup. */
type Of = (name: string) => Cell;

function columns(sides: number[]): Column<Line>[] {
  const of = (line: Line): Of[] => sides.map((side) => (name) => line.get(name)?.cells[side] ?? UNKNOWN);
  /** A line per side, or one if both are equal. */
  const column = (text: string, show: (of: Of) => string): Column<Line> => {
    const shown = (line: Line) => [...new Set(of(line).map(show))];
    const cell = (line: Line) => html("span", { class: "sides" }, ...shown(line).map((side) => html("span", {}, side)));
    return { key: text, text, kind: "number", cell, copy: (line) => shown(line).join(" → ") };
  };
  const pressure = (resource: string) =>
    column(`${resource} pressure`, (of) => {
      const [some, full] = ["some", "full"].map((kind) => of(`pressure/${resource}.${kind}.total_usec`).text);
      return full === "-" ? (some ?? "-") : `${some ?? "-"} / ${full ?? "-"}`;
    });
  return [
    { key: "cgroup", text: "cgroup", kind: "name", cell: nameOf },
    column("CPU time", (of) => of("cgroup-stats/cpu.usage_usec").text),
    column("CPU limit", (of) => {
      const [quota, period] = [of("cgroup-limits/cpu.max_quota_us"), of("cgroup-limits/cpu.max_period_us")];
      return quota.number === null ? quota.text : `${quota.text} per ${period.text}`;
    }),
    column("throttled", (of) => {
      const [throttled, periods] = [of("cgroup-stats/cpu.nr_throttled"), of("cgroup-stats/cpu.nr_periods")];
      const time = of("cgroup-stats/cpu.throttled_usec").text;
      return throttled.number ? `${throttled.text} of ${periods.text}, ${time}` : throttled.text;
    }),
    column("memory, limit", (of) => {
      const [used, most] = [of("cgroup-stats/memory.current"), of("cgroup-limits/memory.max")];
      const share = most.number && used.number ? `, ${((used.number / most.number) * 100).toFixed(0)}%` : "";
      return `${used.text} of ${most.text}${share}`.replace(/ of max$/, ", no limit");
    }),
    column("OOM kills", (of) => of("memory-events/oom_kill").text),
    ...["cpu", "memory", "io"].map(pressure),
  ];
}
