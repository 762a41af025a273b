// cgroups: CPU time and throttling, memory against its limit, pressure.

import type { App } from "./app";
import { changeOf, numberOf, type Cell, type Report, type Row } from "./data";
import { html, svg } from "./dom";
import { cellText } from "./format";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

interface Line {
  key: string;
  name: string;
  /** The rows of the cgroup, by section and name of the value. */
  rows: Map<string, Row>;
}

const SECTIONS = ["cgroup-stats", "cgroup-limits", "memory-events", "pressure"];

const NONE = "The report has no values of cgroups. They are in every capture that can read /sys/fs/cgroup.";

export function cgroups({ report }: App): HTMLElement {
  const lines = read(report);
  if (lines.length === 0) return html("p", {}, NONE);
  const changed = (line: Line) => Math.abs(changeOf(line.rows.get("cgroup-stats/cpu.usage_usec")) ?? 0);
  const sides = report.two ? "Upper line: baseline; lower: candidate. " : "";
  return html(
    "div",
    {},
    table("cgroups", columns(report.two), sortedBy(lines, false, changed)),
    html("p", { class: "note" }, `${sides}Pressure is the time in which some tasks / all tasks waited.`),
  );
}

function read(report: Report): Line[] {
  const lines = new Map<string, Line>();
  for (const name of SECTIONS) {
    for (const value of report.tree.get(name)?.values.values() ?? []) {
      for (const row of value.rows) {
        const { key } = row.group;
        const line = lines.get(key) ?? { key, name: row.group.name, rows: new Map<string, Row>() };
        line.rows.set(`${name}/${value.name}`, row);
        lines.set(key, line);
      }
    }
  }
  return [...lines.values()];
}

/** A line of text per side. */
const perSide = (texts: string[]): HTMLElement =>
  html("span", { class: "sides" }, ...[...new Set(texts)].map((text) => html("span", {}, text)));

function columns(two: boolean): Column<Line>[] {
  const sides = two ? [0, 1] : [0];
  const cell = (line: Line, name: string, side: number): Cell | null => line.rows.get(name)?.cells[side] ?? null;
  const text = (line: Line, name: string, side: number) =>
    cellText(cell(line, name, side), line.rows.get(name)?.value.unit ?? "");
  const column = (name: string, show: (line: Line, side: number) => string): Column<Line> => ({
    key: name,
    text: name,
    kind: "number",
    cell: (line) => perSide(sides.map((side) => show(line, side))),
  });
  const plain = (title: string, name: string) => column(title, (line, side) => text(line, name, side));
  const pressure = (resource: string) =>
    column(`${resource} pressure`, (line, side) => {
      const [some = "-", full = "-"] = ["some", "full"].map((kind) =>
        text(line, `pressure/${resource}.${kind}.total_usec`, side),
      );
      return full === "-" ? some : `${some} / ${full}`;
    });
  return [
    { key: "cgroup", text: "cgroup", kind: "name", cell: (line) => line.name },
    plain("CPU time", "cgroup-stats/cpu.usage_usec"),
    column("CPU limit", (line, side) => {
      const quota = text(line, "cgroup-limits/cpu.max_quota_us", side);
      return !["-", "max"].includes(quota)
        ? `${quota} per ${text(line, "cgroup-limits/cpu.max_period_us", side)}`
        : quota;
    }),
    column("throttled", (line, side) => {
      const [throttled, periods] = ["nr_throttled", "nr_periods"].map((name) =>
        text(line, `cgroup-stats/cpu.${name}`, side),
      );
      return throttled === "-" || throttled === "0"
        ? throttled
        : `${throttled ?? ""} of ${periods ?? ""}, ${text(line, "cgroup-stats/cpu.throttled_usec", side)}`;
    }),
    {
      key: "memory",
      text: "memory, limit",
      kind: "number",
      cell: (line) => html("span", { class: "sides" }, ...sides.map((side) => memory(line, side, text, cell))),
    },
    plain("OOM kills", "memory-events/oom_kill"),
    pressure("cpu"),
    pressure("memory"),
    pressure("io"),
  ];
}

function memory(
  line: Line,
  side: number,
  text: (line: Line, name: string, side: number) => string,
  cell: (line: Line, name: string, side: number) => Cell | null,
): HTMLElement {
  const [current, limit] = ["cgroup-stats/memory.current", "cgroup-limits/memory.max"];
  const [used, most] = [numberOf(cell(line, current, side)), numberOf(cell(line, limit, side))];
  const share = used !== null && most !== null && most > 0 ? Math.min(1, used / most) : null;
  const bar =
    share === null
      ? null
      : svg(
          "svg",
          { class: "level", viewBox: "0 0 100 8", preserveAspectRatio: "none", "aria-hidden": "true" },
          svg("rect", { class: "idle", width: 100, height: 8 }),
          svg("rect", { class: share > 0.9 ? "full" : "used", width: share * 100, height: 8 }),
        );
  const limited = text(line, limit, side);
  const words = `${text(line, current, side)}${limited === "max" ? ", no limit" : ` of ${limited}`}`;
  return html("span", {}, words, bar);
}
