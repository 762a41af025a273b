// The top of the page: what is compared, warnings, and how much of the host's CPU time is explained.

import type { App } from "./app";
import type { CpuBar, Document } from "./data";
import { dots } from "./bars";
import { html, svg } from "./dom";
import { table, type Column } from "./table";

type Gates = NonNullable<Document["gates"]>;

export function header({ report, state }: App): HTMLElement {
  const { title, lines, missing, gates } = report.document;
  const list = html("dl", { class: "facts" });
  const warnings = html("ul", { class: "warnings", "aria-label": "Warnings" });
  for (const { label, text, warning, cpu, dots: runs } of lines) {
    if (warning) warnings.append(html("li", {}, html("strong", {}, label), " ", text));
    else if (label)
      list.append(html("dt", {}, label), html("dd", {}, text, cpu && cpuBar(cpu), runs && dots(runs, report)));
    else (list.lastElementChild ?? list).append(html("div", {}, text));
  }
  if (missing.length > 0) {
    const why = html("a", { href: state.link({ view: "captures" }) }, "why");
    list.append(html("dt", {}, "missing"), html("dd", {}, missing.join(", "), " (", why, ")"));
  }
  return html(
    "header",
    {},
    html("h1", {}, html("span", { class: "tool" }, "ctprof"), " ", title),
    list,
    warnings.childElementCount > 0 && warnings,
    gates && gateTable(gates),
  );
}

/** Gates that are on the first screen: those that did not pass come first. */
const GATES = 6;

function gateTable({ summary, headings, rows }: Gates): HTMLElement {
  const column = (text: string, at: number): Column<string[]> => ({
    key: text,
    text,
    kind: at > 2 && at < 7 ? "number" : "name",
    cell: (row) => html("span", { class: at === 0 && `outcome ${row[0]?.split(":")[0] ?? ""}` }, row[at]),
  });
  const title = html("h2", {}, summary);
  return html("section", { class: "gates" }, title, table("Gates", headings.map(column), rows, undefined, GATES));
}

/** The CPU time of the host: what threads explain, what they don't, and what was idle. */
function cpuBar({ explained, busy, text, saturated }: CpuBar): HTMLElement {
  const part = (name: string, width: number) => svg("rect", { class: name, width, height: 6 });
  const label = `${text}, ${explained.toFixed(0)}% accounted for by threads`;
  return html(
    "div",
    { class: "cpu" },
    svg(
      "svg",
      { viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
      ...[part("idle", 100), part("unexplained", busy), part("explained", explained)],
    ),
    html("span", { class: saturated && "saturated" }, text),
  );
}
