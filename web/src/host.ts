// The hosts and the captures: differences or settings, how values were captured, and what is missing.

import type { App } from "./app";
import type { Document, Row, Section, SideFacts } from "./data";
import { html, type Child } from "./dom";
import { cellText, deltaText, numberText, percentText } from "./format";
import { table, type Column } from "./table";

const text = (value: string | number | null | undefined): string =>
  value === null || value === undefined ? "-" : String(value);

export function host(app: App): HTMLElement {
  const { report } = app;
  const { differences, host: settings } = report.document.facts;
  const sections = ["host-pressure", "sched-ext", "smaps-rollup"].flatMap((name) => report.sections.get(name) ?? []);
  return html(
    "div",
    {},
    differences !== undefined && block("Differences between the hosts", different(differences)),
    settings !== undefined && block("Settings", table("Settings", SETTINGS, Object.entries(settings))),
    renamed(app),
    ...sections.map((section) => values(app, section)),
  );
}

type Difference = NonNullable<Document["facts"]["differences"]>[number];

function different(differences: Difference[] | null): Child {
  if (differences === null) return "A side has no host settings.";
  return differences.length === 0 ? "None." : table("Differences", DIFFERENCES, differences);
}

const DIFFERENCES: Column<Difference>[] = [
  { key: "field", text: "setting", kind: "name", cell: ({ field }) => field },
  { key: "baseline", text: "baseline", cell: ({ baseline }) => text(baseline) },
  { key: "candidate", text: "candidate", cell: ({ candidate }) => text(candidate) },
];

const SETTINGS: Column<[string, string]>[] = [
  { key: "field", text: "setting", kind: "name", cell: ([field]) => field },
  { key: "value", text: "value", cell: ([, value]) => value },
];

export function captures(app: App): HTMLElement {
  const { report } = app;
  const sides = report.captures;
  const facts = (name: string, fact: (side: SideFacts) => string) => ({ name, texts: sides.map(fact) });
  const rows = [
    facts("file", (side) => side.file),
    facts("host", (side) => text(side.hostname)),
    facts("kernel", (side) => `${text(side.kernel_release)} ${text(side.arch)}`),
    facts("captured", (side) =>
      side.captured_at_unix_ns > 0
        ? new Date(side.captured_at_unix_ns / 1e6).toISOString().replace("T", " ").replace(/\..*/, " UTC")
        : "unknown",
    ),
    facts("by", (side) => `${text(side.tool)}${side.engine ? ` (${side.engine})` : ""}`),
    facts("threads", (side) => `${side.threads} in ${side.processes} processes`),
    facts("runs", ({ runs }) => (runs ? `${runs.runs}${runs.excluded > 0 ? `, ${runs.excluded} excluded` : ""}` : "-")),
    facts("window", (side) =>
      side.window
        ? `${numberText(side.window.duration_ns, "ns")}, ${side.window.started} started, ${side.window.exited} exited`
        : "-",
    ),
    facts("exit records", (side) =>
      side.window?.exit_records
        ? `${side.window.exit_records.received} from ${side.window.exit_records.source}, ${side.window.exit_records.lost} lost`
        : "-",
    ),
  ];
  const names = sides.length === 2 ? ["baseline", "candidate"] : ["value"];
  const columns: Column<(typeof rows)[number]>[] = [
    { key: "name", text: "", kind: "name", cell: ({ name }) => name },
    ...sides.map((_, side): Column<(typeof rows)[number]> => ({
      key: String(side),
      text: names[side] ?? "",
      cell: ({ texts }) => texts[side],
    })),
  ];
  const section = report.sections.get("capture");
  const gaps = section?.notes.length
    ? section.notes
    : (report.document.facts.gaps ?? []).map(
        (gap) => `${gap.source}: ${text(gap.reason)}${gap.fix ? `. Fix: ${gap.fix}` : ""}`,
      );
  return html(
    "div",
    {},
    sides.length > 0 ? block("Captures", table("Captures", columns, rows)) : null,
    block(
      "Missing data",
      gaps.length === 0 ? "None." : html("ul", { class: "gaps" }, ...gaps.map((gap) => html("li", {}, gap))),
    ),
    section ? values(app, section, "What the captures read, and their cost") : null,
  );
}

function block(title: string, content: Child): HTMLElement {
  return html("section", {}, html("h2", {}, title), typeof content === "string" ? html("p", {}, content) : content);
}

function renamed(app: App): HTMLElement | null {
  const list = app.report.document.renamed ?? [];
  if (list.length === 0) return null;
  return block(
    "Renamed cgroups",
    table(
      "Renamed cgroups",
      [
        { key: "baseline", text: "baseline", kind: "name", cell: ({ baseline }) => baseline },
        { key: "candidate", text: "candidate", cell: ({ candidate }) => candidate },
        {
          key: "similarity",
          text: "similar threads",
          kind: "number",
          cell: ({ similarity }) => `${(similarity * 100).toFixed(0)}%`,
        },
      ],
      list,
    ),
  );
}

/** The rows of a section about the host. */
function values(app: App, section: Section, title = section.name): HTMLElement | null {
  const rows = [...section.values.values()].flatMap((value) => value.rows);
  if (rows.length === 0) return null;
  const side = (at: number, name: string): Column<Row> => ({
    key: name,
    text: name,
    kind: "number",
    cell: (row) => cellText(row.cells[at] ?? null, row.value.unit),
  });
  const isOne = section.groups.length === 1;
  const columns: Column<Row>[] = [
    {
      key: "metric",
      text: "value",
      kind: "name",
      cell: (row) => (isOne ? row.value.name : `${row.group.name} ${row.value.name}`),
    },
    ...(app.report.two ? [side(0, "baseline"), side(1, "candidate")] : [side(0, "value")]),
    ...(app.report.two
      ? [
          { key: "delta", text: "delta", kind: "number", cell: (row: Row) => deltaText(row) } as const,
          { key: "percent", text: "%", kind: "number", cell: (row: Row) => percentText(row.percent) } as const,
        ]
      : []),
  ];
  return block(title, table(title, columns, rows, undefined, 40));
}
