// A table of values, a row per group and value: of the sections of a view, or of one group.

import type { App } from "./app";
import { changeOf, type Row, type Section } from "./data";
import { button, filterInput, html, note, select } from "./dom";
import { counted } from "./format";
import { says } from "./marks";
import { table, type Column } from "./table";

const ALL = "all";

/** Sections that are no values of groups. */
export const OF_HOST = ["settings", "renamed cgroups", "host-pressure", "sched-ext"];
export const OF_CAPTURES = ["captures", "missing data", "capture"];

export class RowsView {
  private readonly list = html("div", { class: "rows" });
  private readonly about = html("div");

  constructor(
    private readonly app: App,
    private readonly view: "values" | "host" | "captures",
    /** The names of the sections; empty for those that no other view has. */
    private readonly names: string[] = [],
  ) {}

  get hasContent(): boolean {
    return this.sections().length > 0;
  }

  draw(): HTMLElement {
    const { state } = this.app;
    const sections = this.sections().map(({ name }): [string, string] => [name, name]);
    const filter = filterInput("group or metric", state.get(`${this.view}-filter`), (text) => {
      state.set({ [`${this.view}-filter`]: text });
    });
    const section = select("Section", [[ALL, "all sections"], ...sections], this.chosen(), (name) =>
      state.set({ section: name }),
    );
    this.refresh();
    const toolbar = html("div", { class: "toolbar" }, filter, this.names.length === 0 && section, this.about);
    return html("div", {}, toolbar, this.list);
  }

  refresh(): void {
    const { state } = this.app;
    const chosen = this.sections().filter(({ name }) => [ALL, name].includes(this.chosen()));
    const filter = state.get(`${this.view}-filter`).toLowerCase();
    const group = this.names.length === 0 ? state.get("group") : "";
    const isWanted = (row: Row) =>
      (group === "" || row.group.key === group) &&
      `${row.group.label} ${row.value.name}`.toLowerCase().includes(filter);
    const isIdle = ({ value }: Row) => value.reason?.class === "idle";
    const wanted = chosen.flatMap((section) => section.rows.filter(isWanted));
    const rows = [...wanted.filter((row) => !isIdle(row)), ...wanted.filter(isIdle)];
    this.tellGroup(group);
    const notes = chosen.flatMap(({ name, notes }) => notes.map((one) => `${name}: ${one}`));
    const hasStar = rows.some(({ cells }) => cells.some(({ text }) => text.endsWith("*")));
    const about = `${counted(rows.length, "row")}.${hasStar ? " * lacks threads whose value is unknown." : ""}`;
    this.list.replaceChildren(
      table(this.view, this.columns(rows), rows, { state, key: `${this.view}-sort` }),
      ...[about, ...notes].map(note),
    );
  }

  /** Which group the values are of, if it is only one. */
  private tellGroup(key: string): void {
    const groups = this.sections().flatMap((section) => section.groups);
    const name = groups.find((group) => group.key === key)?.label ?? "an unknown group";
    const all = button("Show all groups", () => this.app.state.set({ group: "", section: ALL }));
    this.about.replaceChildren(...(key ? ["Values of ", html("strong", {}, name), " ", all] : []));
  }

  /** The section that is shown: all of a group and of a host, else the first after the overview. */
  private chosen(): string {
    const { state } = this.app;
    if (this.names.length > 0) return ALL;
    const [sections, wanted] = [this.sections(), state.get("section")];
    if (wanted === ALL || sections.some(({ name }) => name === wanted)) return wanted;
    const first = sections.find(({ name }) => name !== "overview") ?? sections[0];
    return state.get("group") ? ALL : (first?.name ?? ALL);
  }

  private has(name: string): boolean {
    return this.names.length > 0 ? this.names.includes(name) : ![...OF_HOST, ...OF_CAPTURES].includes(name);
  }

  private sections(): Section[] {
    const { report, state } = this.app;
    const group = this.names.length === 0 ? state.get("group") : "";
    const has = (sections: Map<string, Section>) =>
      [...sections.values()].some(({ groups }) => groups.some(({ key }) => key === group));
    const isOfTree = group !== "" && !has(report.sections) && has(report.tree);
    const sections = [...(isOfTree ? report.tree : report.sections).values()];
    return sections.filter(({ name, rows }) => this.has(name) && rows.length > 0);
  }

  /** The columns: of a host, without the names of its groups; of one section, without its name. */
  private columns(rows: Row[]): Column<Row>[] {
    const { report } = this.app;
    const [first] = rows;
    const cell = (key: string, of: (row: Row) => Row["delta"], order = (row: Row) => of(row)?.number ?? null) => ({
      key,
      text: key,
      kind: "number" as const,
      order,
      cell: (row: Row) => html("span", { class: of(row)?.number === null && "text" }, of(row)?.text),
    });
    const hasSections = rows.some(({ value }) => value.section !== first?.value.section);
    const name = (key: string, of: (row: Row) => string): Column<Row> => {
      return { key, text: key, kind: "name", order: of, cell: of };
    };
    const metric = ({ value }: Row) => html("span", value.doc ? says(value.name, value.doc) : {}, value.name);
    const kind = this.names.length > 0 ? ("name" as const) : ("number" as const);
    const sides = report.two ? ["baseline", "candidate"] : ["value"];
    const verdicts = [
      { ...cell("interval", (row) => row.interval), text: "95% interval" },
      name("verdict", (row) => row.verdict?.text ?? ""),
    ];
    return [
      ...(this.names.length === 0 ? [name("group", ({ group }) => group.label)] : []),
      ...(hasSections ? [name("section", ({ value }) => value.section.name)] : []),
      { ...name("metric", ({ value }) => value.name), cell: metric },
      ...sides.map((key, side) => ({ ...cell(key, ({ cells }) => cells[side]), kind })),
      ...(report.two ? [cell("delta", (row) => row.delta, changeOf), cell("%", (row) => row.percent)] : []),
      ...(report.document.verdicts ? verdicts : []),
    ];
  }
}
