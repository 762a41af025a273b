// The values of all runs: of each gate with its bound, and of each group with a verdict.

import type { App } from "./app";
import type { Dots, Report } from "./data";
import { html, legend } from "./dom";
import { dots, SIDES } from "./dots";
import { table, type Column } from "./table";

interface Line {
  name: string;
  verdict: string;
  dots: Dots;
}

function lines({ document, overview }: Report): Line[] {
  const of = (name: string, verdict: string, dots: Dots | null | undefined) => (dots ? [{ name, verdict, dots }] : []);
  const gates = document.gates?.rows.flatMap(([outcome = "", group, , , , , , bound], at) =>
    of(group ?? "", `gate ${bound ?? ""} ${outcome}`, document.gates?.dots[at]),
  );
  const others = [
    ...document.lines.flatMap(({ text, dots }) => of("all groups", text, dots)),
    ...(overview?.groups.flatMap((group) => of(group.label, group.verdict, group.dots)) ?? []),
  ];
  const isGated = (line: Line) => gates?.some(({ name, dots }) => name === line.name && dots.name === line.dots.name);
  return [...(gates ?? []), ...others.filter((line) => !isGated(line))];
}

export const hasRuns = (report: Report): boolean => lines(report).length > 0;

export function distribution({ report }: App): HTMLElement {
  const all = lines(report);
  const text = (values: Dots["runs"][number]) => values.map(([value]) => value ?? "-").join(" ");
  const columns: Column<Line>[] = [
    { key: "group", text: "group", kind: "name", cell: ({ name }) => name },
    { key: "metric", text: "metric", kind: "name", cell: ({ dots }) => dots.name },
    {
      key: "runs",
      text: "a dot per run",
      kind: "bar",
      cell: (line) => dots(line.dots),
      copy: (line) => `${line.dots.runs.map(text).join(" → ")} ${line.dots.unit}`,
    },
    { key: "verdict", text: "verdict", kind: "name", cell: ({ verdict }) => verdict },
  ];
  const colors = [...(report.two ? SIDES : SIDES.slice(0, 1)), ...(report.document.gates ? ["bound"] : [])];
  const toolbar = html("div", { class: "toolbar" }, legend(colors.map((name) => [name, name])));
  return html("div", {}, toolbar, table("Distribution", columns, all));
}
