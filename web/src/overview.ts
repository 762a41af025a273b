// The overview: a row per group with bars of its time; groups expand to the threads below them.

import { TIMES, valuesOf, type App } from "./app";
import { scaleOfTimes } from "./bars";
import { copiers } from "./copy";
import { changeOf, isUnclear, textOf, type Group, type Section, type Value } from "./data";
import { button, filterInput, folded, html, legend, select } from "./dom";
import { counted, headingOf, numberText } from "./format";
import { Outline, type Line } from "./outline";
import { says } from "./marks";
import { overviewRow, THREADS, whyRow, type Rows } from "./overview_row";
import { sortingHead, type Sorting } from "./sorting";

/** Groups that are drawn at first, and with each click on "more". */
const PER_CLICK = 100;

const CHANGE = "What changed most. Each dot is the value of a run: baseline above, candidate below.";
const TIME = "Time of all threads of a group. 100% is one CPU, or one thread, for the whole time.";

export class Overview {
  private drawn = PER_CLICK;
  /** Whether groups that did nothing are shown. */
  private hasIdle = false;
  private readonly outline: Outline;
  /** The columns with data. */
  private readonly columns: Value[];
  private readonly largest: Map<Value, number>;
  private readonly head = html("tr");
  private readonly body = html("tbody");
  private readonly more = html("div", { class: "rest" });
  private readonly sorting: Sorting;

  constructor(
    private readonly app: App,
    private readonly section: Section,
  ) {
    this.sorting = { state: app.state, key: "sort" };
    const { tops } = (this.outline = new Outline(app, section));
    const isNumber = (value: Value) => value.rows.some(({ cells }) => cells.some(({ number }) => number));
    this.columns = [...section.values.values()].filter(isNumber);
    const change = (value: Value, group: Group) => {
      const row = value.row.get(group);
      return row && isUnclear(row) ? 0 : Math.abs(changeOf(row) ?? 0);
    };
    const largest = (value: Value) => Math.max(0, ...tops.map((group) => change(value, group)));
    this.largest = new Map(this.columns.map((value) => [value, largest(value)]));
  }

  draw(): HTMLElement {
    const { report } = this.app;
    const label = report.two ? "Groups, before and after" : "Groups";
    const table = html(
      "table",
      { class: report.two ? "overview two" : "overview" },
      this.widths(),
      html("thead", {}, this.head),
      this.body,
    );
    this.body.addEventListener("keydown", (event) => this.key(event));
    this.refresh();
    const scroll = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
    return html("div", {}, this.toolbar(), scroll, this.more, this.footer());
  }

  /** The heading of the column with what changed most, if groups have that. */
  private get change(): string | null {
    const hasChanges = this.section.groups.some(({ verdict }) => verdict !== "");
    return this.app.report.document.verdicts ? "verdict" : hasChanges ? "change" : null;
  }

  /** Draws what depends on the filter, the order and what is open. */
  refresh(): void {
    const { report, state } = this.app;
    const rows: Rows = {
      report,
      hasChange: this.change !== null,
      columns: this.columns,
      largest: this.largest,
      scale: scaleOfTimes(this.outline.tops),
      capacity: report.document.capacity,
      link: (group) => (group.exited ? null : valuesOf(state, group)),
    };
    const expander = (group: Group) => {
      const toggle = () => this.toggle(group);
      return this.outline.below(group).length === 0 ? null : { isOpen: this.outline.isOpen(group), toggle };
    };
    const all = this.outline.shown();
    const idle = all.filter((group) => group.idle);
    const shown = all.filter((group) => !group.idle).concat(this.hasIdle ? idle : []);
    const lines = shown.slice(0, this.drawn).flatMap((group) => this.outline.lines(group));
    this.heading();
    const drawn = (line: Line) => [overviewRow(line, rows, expander(line.group)), whyRow(line.group, rows)];
    this.body.replaceChildren(...lines.flatMap(drawn).filter((row) => row !== null));
    this.drawMore(shown, this.hasIdle ? 0 : idle.length);
  }

  /** The columns, as wide as their longest text, so that none moves when a row opens. */
  private widths(): HTMLElement {
    const tree = this.app.report.tree.get("overview");
    const longest = ({ name, unit }: Value) => {
      const rows = [this.section, tree].flatMap((section) => section?.values.get(name)?.rows ?? []);
      return rows.reduce(
        (most, { cells }) => Math.max(most, ...cells.map(({ text }) => text.length)),
        headingOf(name, unit).length - 1,
      );
    };
    const named = ["name", "time", ...(this.change === null ? [] : ["verdict"]), "threads"];
    const values = this.columns.map((value) => {
      const column = html("col");
      column.style.width = `calc(${longest(value)}ch + 13px)`;
      return column;
    });
    return html("colgroup", {}, ...named.map((kind) => html("col", { class: kind })), ...values);
  }

  private toolbar(): HTMLElement {
    const { report, state } = this.app;
    const by = ["change", "candidate", "baseline"].map((name): [string, string] => [name, name]);
    const sort = select("Sort columns by", by, state.get("by"), (value) => state.set({ by: value }));
    const filter = filterInput("name of a group or thread", state.get("filter"), (text) => {
      this.drawn = PER_CLICK;
      state.set({ filter: text });
    });
    const colors = legend(TIMES.map((name) => [name, name]));
    return html("div", { class: "toolbar" }, filter, report.two && sort, colors);
  }

  private heading(): void {
    const { report } = this.app;
    const length = scaleOfTimes(this.outline.tops);
    const sides = report.two ? ": baseline above, candidate below" : "";
    const { capacity } = report.document;
    const cpus = capacity === null ? "" : `; ${counted(capacity / 100, "CPU")}: ${capacity}%`;
    const scale = length
      ? ` 0 to ${numberText(length, report.scale(this.section.values.get("run")?.unit ?? ""))}${cpus}`
      : null;
    this.head.replaceChildren(
      sortingHead(this.sorting, { key: "name", text: "group", kind: "name" }),
      html("th", { scope: "col", class: "time", ...says("time", TIME) }, `time${sides}`, scale),
      this.change === null
        ? ""
        : sortingHead(this.sorting, { key: "verdict", text: this.change, kind: "name", doc: CHANGE }),
      sortingHead(this.sorting, { key: "threads", text: "threads", doc: THREADS, kind: "number" }),
      ...this.columns.map(({ name, unit, doc }) =>
        sortingHead(this.sorting, { key: name, text: headingOf(name, unit), doc, kind: "number" }),
      ),
    );
  }

  private toggle(group: Group): void {
    this.outline.toggle(group);
    const row = [...this.body.children].find((line) => line.getAttribute("data-key") === group.key);
    row?.querySelector<HTMLElement>("button.expander")?.focus();
  }

  /** Arrows move between rows, open and close groups, and move between the values of a row. */
  private key(event: KeyboardEvent): void {
    const target = event.target as Element;
    const row = target.closest("tr");
    const cells = [...(row?.querySelectorAll<HTMLElement>("td [data-says], td[data-says]") ?? [])];
    const [at, step] = [cells.findIndex((cell) => cell === target), { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0];
    const expander = row?.querySelector<HTMLButtonElement>("button.expander");
    const isOpen = expander?.getAttribute("aria-expanded") === "true";
    const rows = [...this.body.querySelectorAll("tr[data-key]")];
    const next = { ArrowDown: rows[rows.indexOf(row ?? target) + 1], ArrowUp: rows[rows.indexOf(row ?? target) - 1] }[
      event.key
    ];
    const first = "button.expander, a";
    const value = target.getAttribute("data-value");
    const same = value && next?.querySelector<HTMLElement>(`td[data-value="${value}"]`);
    const below = same ?? next?.querySelector<HTMLElement>(first);
    if (below) below.focus();
    else if (at < 0 && expander && event.key === (isOpen ? "ArrowLeft" : "ArrowRight")) expander.click();
    else if (step !== 0) (cells[at + step] ?? row?.querySelector<HTMLElement>(first))?.focus();
    else return;
    event.preventDefault();
  }

  private drawMore(shown: Group[], idle: number): void {
    const left = shown.length - this.drawn;
    const upTo = (text: string, drawn: number, hasIdle = this.hasIdle) =>
      button(text, () => {
        [this.drawn, this.hasIdle] = [drawn, hasIdle];
        this.refresh();
      });
    const some =
      left > PER_CLICK ? `Show ${PER_CLICK} more of ${counted(left, "group")}` : `Show ${counted(left, "more group")}`;
    this.more.replaceChildren(
      left > 0 ? upTo(some, this.drawn + PER_CLICK) : "",
      left > PER_CLICK ? upTo("Show all", Infinity) : "",
      idle > 0 ? upTo(`Show ${counted(idle, "idle group")}`, this.drawn, true) : "",
      shown.length + idle === 0 ? "No group matches the filter." : "",
      ...copiers(() => this.texts(shown)),
    );
  }

  /** The table as text. */
  private texts(shown: Group[]): string[][] {
    const change = this.change === null ? [] : [this.change];
    const heads = [
      "group",
      ...change,
      "threads",
      ...this.columns.map(({ name, unit }) => headingOf(name, unit)),
      "why",
    ];
    const text = (group: Group) => (value: Value) => textOf(group.section.values.get(value.name)?.row.get(group));
    const row = ({ group }: Line) => [
      group.label,
      ...change.map(() => group.verdict),
      group.threads?.text ?? "",
      ...this.columns.map(text(group)),
      group.why.join("; "),
    ];
    return [heads, ...shown.flatMap((group) => this.outline.lines(group)).map(row)];
  }

  /** What is left out, and why; and what headings mean. */
  private footer(): HTMLElement {
    const { values, notes } = this.section;
    const empty = [...values.values()].filter((value) => !this.columns.includes(value));
    const isKnown = (value: Value) => value.rows.some(({ cells }) => cells.some(({ number }) => number !== null));
    const names = (list: Value[]) => list.map((value) => value.name).join(", ");
    const [zero, none] = [names(empty.filter(isKnown)), names(empty.filter((value) => !isKnown(value)))];
    const parts = [
      ...notes,
      zero && `zero everywhere: ${zero}`,
      none && `not available: ${none} (ctprof doctor on the host)`,
    ];
    const docs = this.columns.map(({ name, doc }) => [name, doc]);
    const star = ["*", "The total lacks threads whose value is unknown."];
    const terms = [["time", TIME], ["threads", THREADS], ...docs, star];
    const term = ([name, doc]: string[]) => [html("dt", {}, name), html("dd", {}, doc)];
    const meanings = folded("What the columns mean", html("dl", { class: "facts" }, ...terms.flatMap(term)));
    return html("div", { class: "note" }, html("p", {}, parts.filter((part) => part).join("; ")), meanings);
  }
}
