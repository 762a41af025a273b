// The top of the page: what is compared, warnings, and how much of the host's CPU time is explained.

import type { App } from "./app";
import type { Document, SideFacts } from "./data";
import { dots } from "./bars";
import { html, svg } from "./dom";
import { table, type Column } from "./table";

type Gates = NonNullable<Document["gates"]>;

const baseName = (file: string): string => file.split("/").pop() ?? file;

/** The command that ran in a window, else the file. */
const named = ({ file, window }: SideFacts): string => window?.command?.arguments?.join(" ") ?? baseName(file);

/** What the report is about, and when that was captured. */
export function title({ report }: App): string {
  const names = report.captures.map(named).filter((name) => name !== "");
  const last = report.captures.at(-1)?.captured_at_unix_ns ?? 0;
  const time = new Date(last / 1e6).toISOString().slice(0, 16).replace("T", " ");
  return `${[...new Set(names)].join(" → ") || "ctprof"}${last > 0 ? `, ${time} UTC` : ""}`;
}

export function header(app: App): HTMLElement {
  const { lines, facts } = app.report.document;
  const list = html("dl", { class: "facts" });
  const warnings = html("ul", { class: "warnings", "aria-label": "Warnings" });
  const { baseline, candidate, snapshot } = facts;
  const sides: Record<string, SideFacts | null | undefined> = {
    baseline,
    candidate,
    window: snapshot,
    activity: candidate,
  };
  const missing = lines.filter(({ label }) => label === "missing").map(({ text }) => text.split(": ")[0] ?? "");
  for (const { label, text, warning } of lines) {
    if (label === "missing") continue;
    if (warning) {
      warnings.append(html("li", {}, html("strong", {}, label), " ", text));
      continue;
    }
    const side = sides[label];
    const term = label ? html("dt", {}, label) : null;
    const runs = label === "elapsed" ? app.report.document.elapsed : null;
    const chart = side ? cpuBar(side) : runs && dots(runs);
    const entry = html("dd", {}, text, chart);
    if (term) list.append(term, entry);
    else (list.lastElementChild ?? list).append(html("div", {}, text));
  }
  if (missing.length > 0) {
    const why = html("a", { href: app.state.link({ view: "captures" }) }, "why");
    list.append(html("dt", {}, "missing"), html("dd", {}, [...new Set(missing)].join(", "), " (", why, ")"));
  }
  const { gates } = app.report.document;
  return html(
    "header",
    {},
    html("h1", {}, html("span", { class: "tool" }, "ctprof"), " ", title(app)),
    list,
    warnings.childElementCount > 0 ? warnings : null,
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

/** CPUs that are busy for more of their time have none left, in percent. */
const SATURATED = 95;

/** The CPU time of the host: what threads explain, what they don't, and what was idle. */
function cpuBar(side: SideFacts): Element | null {
  const window = side.window;
  const capacity = (window?.cpu?.cpus ?? 0) * (window?.duration_ns ?? 0);
  // The threads of a container or of selected processes are a part of what the host did.
  if (!window?.cpu || capacity === 0 || side.runs || window.cpu.partial) return null;
  const share = (ns: number) => Math.min(1, ns / capacity) * 100;
  const { busy_ns, busy_most_ns } = window.cpu;
  const [explained, busy] = [share(window.cpu.explained_ns), share(busy_ns)];
  const most = share(busy_most_ns ?? busy_ns).toFixed(0);
  const range = busy.toFixed(0) === most ? `${most}%` : `${busy.toFixed(0)} to ${most}%`;
  const label = `CPU time of the host: ${range} busy, ${explained.toFixed(0)}% accounted for by threads`;
  return html(
    "div",
    { class: "cpu" },
    svg(
      "svg",
      { viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("rect", { class: "idle", width: 100, height: 6 }),
      svg("rect", { class: "unexplained", width: busy, height: 6 }),
      svg("rect", { class: "explained", width: explained, height: 6 }),
    ),
    html(
      "span",
      { class: busy >= SATURATED && "saturated" },
      `CPUs ${range} busy${busy >= SATURATED ? ": saturated" : ""}`,
    ),
  );
}
