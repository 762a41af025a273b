// All values: a row per group and value, of one section or of one group.

import type { App } from "./app";
import { changeOf, numberOf, type Report, type Row, type Section } from "./data";
import { button, filterInput, html, select } from "./dom";
import { counted, deltaText, intervalText, percentText, valueText } from "./format";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

const ALL = "all";

export class ValuesView {
  private readonly list = html("div");
  private readonly about = html("div");

  constructor(private readonly app: App) {}

  draw(): HTMLElement {
    const { state } = this.app;
    const sections = this.sections().map(({ name }): [string, string] => [name, name]);
    const filter = filterInput("group or metric", state.get("filter"), (text) => {
      state.set({ filter: text });
    });
    const section = select("Section", [[ALL, "all sections"], ...sections], this.chosen(), (name) => {
      state.set({ section: name });
    });
    const toolbar = html("div", { class: "toolbar" }, filter, section, this.about);
    this.refresh();
    return html("div", {}, toolbar, this.list);
  }

  refresh(): void {
    const { report, state } = this.app;
    const chosen = this.sections().filter(({ name }) => [ALL, name].includes(this.chosen()));
    const rows = chosen.flatMap((section) => [...section.values.values()].flatMap((value) => value.rows));
    const [filter, group] = [state.get("filter").toLowerCase(), state.get("group")];
    const isWanted = (row: Row) =>
      (group === "" || row.group.key === group) && `${pathOf(row)} ${row.value.name}`.toLowerCase().includes(filter);
    const shown = rows.filter(isWanted);
    this.tellGroup(group);
    const notes = chosen.flatMap((section) => section.notes.map((note) => `${section.name}: ${note}`));
    const about = `${counted(shown.length, "row")}${leftOut(chosen)}. * excludes members whose value is unknown.`;
    this.list.replaceChildren(
      table("Values", columns(report), state.get("sort") ? shown : sortedBy(shown, false, weight), state),
      ...[about, ...notes].map((note) => html("p", { class: "note" }, note)),
    );
  }

  /** Which group the values are of, if it is only one. */
  private tellGroup(key: string): void {
    const groups = this.sections().flatMap((section) => section.groups);
    const name = groups.find((group) => group.key === key)?.path.join(" » ") ?? "an unknown group";
    const all = button("Show all groups", () => {
      this.app.state.set({ group: "", section: ALL });
    });
    this.about.replaceChildren(...(key ? ["Values of ", html("strong", {}, name), " ", all] : []));
  }

  /** The section that is shown: all of a group, else the first after the overview. */
  private chosen(): string {
    const { state } = this.app;
    const first = this.sections().find(({ name }) => name !== "overview") ?? this.sections()[0];
    return state.get("section") || (state.get("group") ? ALL : (first?.name ?? ALL));
  }

  private sections(): Section[] {
    const { report, state } = this.app;
    const group = state.get("group");
    const has = (sections: Map<string, Section>) =>
      [...sections.values()].some(({ groups }) => groups.some(({ key }) => key === group));
    const isOfTree = group !== "" && !has(report.sections) && has(report.tree);
    return [...(isOfTree ? report.tree : report.sections).values()].filter((section) => section.values.size > 0);
  }
}

const pathOf = ({ group }: Row): string => group.path.join(" » ");

/** What the sections have and the file has not. */
function leftOut(sections: Section[]): string {
  const counts = new Map<string, number>();
  for (const { hidden, cut } of sections) {
    for (const [reason, count] of [...Object.entries(hidden), ["beyond --limit", cut] as const]) {
      if (count > 0) counts.set(reason, (counts.get(reason) ?? 0) + count);
    }
  }
  const texts = [...counts].map(([reason, count]) => `${count.toLocaleString("en")} ${reason}`);
  return texts.length > 0 ? `; not in this file: ${texts.join(", ")} (--unchanged, --limit 0)` : "";
}

/** The order of rows at first: the largest changes in percent, but those of values that appeared or vanished first. */
function weight(row: Row): number {
  if (row.cells.length < 2) return 0;
  const [baseline, candidate] = row.cells.map(numberOf);
  if (row.percent !== null) return Math.abs(row.percent);
  return (baseline ?? 0) === 0 && (candidate ?? 0) > 0 ? Number.MAX_VALUE : 0;
}

function columns({ two, document }: Report): Column<Row>[] {
  const side = (at: number, text: string): Column<Row> => ({
    key: text,
    text,
    kind: "number",
    order: (row) => numberOf(row.cells[at]),
    cell: (row) => valueText(row.cells[at] ?? null, row.value.unit),
  });
  const first: Column<Row>[] = [
    {
      key: "group",
      text: "group",
      kind: "name",
      order: (row) => pathOf(row),
      cell: (row) => pathOf(row) + (row.group.cut ? "…" : ""),
    },
    {
      key: "metric",
      text: "metric",
      kind: "name",
      order: (row) => row.value.name,
      cell: (row) => html("span", { title: row.value.doc || null }, `${row.value.name}${row.partial ? "*" : ""}`),
    },
  ];
  if (!two) return [...first, side(0, "value")];
  return [
    ...first,
    side(0, "baseline"),
    side(1, "candidate"),
    { key: "delta", text: "delta", kind: "number", order: (row) => changeOf(row), cell: (row) => deltaText(row) },
    { key: "percent", text: "%", kind: "number", order: (row) => row.percent, cell: (row) => percentText(row.percent) },
    ...(document.verdicts ? RUNS : []),
  ];
}

/** What several runs say. */
const RUNS: Column<Row>[] = [
  { key: "interval", text: "95% interval", kind: "number", cell: (row) => intervalText(row.interval) },
  { key: "verdict", text: "verdict", cell: (row) => row.verdict, order: (row) => row.verdict },
];
