// The top of the page: the answer, warnings, gates, and the facts about the recording, folded.

import type { App } from "./app";
import type { CpuBar, Document } from "./data";
import { dots } from "./dots";
import { folded, html } from "./dom";
import { drawing, mark } from "./marks";
import { table, type Column } from "./table";

export function header({ report, state }: App): HTMLElement {
  const { title, answer, lines, missing, partial, gates } = report.document;
  const list = html("dl", { class: "facts" });
  const warnings = html("ul", { class: "warnings", "aria-label": "Warnings" });
  for (const { label, text, warning } of lines) {
    if (warning) warnings.append(html("li", {}, html("strong", {}, label), " ", text));
    else if (label) list.append(html("dt", {}, label), html("dd", {}, text));
    else (list.lastElementChild ?? list).append(html("div", {}, text));
  }
  for (const [label, sources] of Object.entries({ missing, partial })) {
    const why = html("a", { href: state.linkTo("captures") }, "why");
    if (sources.length > 0) list.append(html("dt", {}, label), html("dd", {}, sources.join(", "), " (", why, ")"));
  }
  const first = lines.find(({ warning }) => !warning);
  return html(
    "header",
    {},
    html("h1", {}, `ctprof ${title}`),
    html("p", { class: "answer" }, answer),
    ...lines.map(({ cpu, label }) => cpu && cpuBar(cpu, report.two ? `${label}: ` : "")),
    warnings.childElementCount > 0 && warnings,
    gates && gateTable(gates),
    first && folded(html("span", {}, `${first.label} ${first.text}`), list),
  );
}

/** Gates that are on the first screen: those that did not pass come first. */
const GATES = 6;

function gateTable({ headings, rows, dots: runs }: NonNullable<Document["gates"]>): HTMLElement {
  const column = (text: string, at: number): Column<string[]> => ({
    key: text,
    text,
    kind: at > 2 && at < 7 ? "number" : "name",
    cell: (row) => html("span", { class: at === 0 && `outcome ${row[0]?.split(":")[0] ?? ""}` }, row[at]),
  });
  const drawn = (row: string[]) => {
    const of = runs[rows.indexOf(row)];
    return of && dots(of);
  };
  const columns = headings.map(column);
  if (runs.some((one) => one)) columns.push({ key: "runs", text: "runs", kind: "bar", cell: drawn, copy: null });
  return html("section", { class: "gates" }, table("Gates", columns, rows, undefined, GATES));
}

/** The CPU time of the host: what threads explain, what they don't, and what was idle. */
function cpuBar({ explained, busy, text, saturated }: CpuBar, side: string): HTMLElement {
  const parts = [
    ["run", 0, explained, "accounted for by threads"],
    ["unexplained", explained, Math.max(0, busy - explained), "busy, but of no thread"],
    ["idle", Math.max(busy, explained), 100 - Math.max(busy, explained), "idle"],
  ] as const;
  const marks = parts.map(([name, x, width, meaning]) =>
    mark("rect", { class: name, x, width, height: 6 }, "CPU time of the host", `${width.toFixed(1)}% ${meaning}`),
  );
  const bar = drawing("", text, [100, 6], ...marks);
  return html("div", { class: "cpu" }, bar, html("span", { class: saturated && "saturated" }, side + text));
}
