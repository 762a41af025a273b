// The overview: a row per group with bars of its time; groups expand to the threads below them.

import { TIMES, valuesOf, type App } from "./app";
import { scaleOf } from "./bars";
import { changeOf, isUnclear, type Group, type Section, type Value } from "./data";
import { button, filterInput, html, legend, select } from "./dom";
import { counted, headingOf, numberText } from "./format";
import { Outline, type Line } from "./outline";
import { explained, overviewRow, whyRow, type Rows } from "./overview_row";
import { sortingHead } from "./sorting";

/** Groups that are drawn at first, and with each click on "more". */
const AT_ONCE = 100;

const DOTS = "Each dot is the value in a run, from the least on the left to the most; baseline above, candidate below";

export class Overview {
  private drawn = AT_ONCE;
  private readonly outline: Outline;
  /** The columns with data. */
  private readonly columns: Value[];
  private readonly largest: Map<Value, number>;
  private readonly head = html("tr");
  private readonly body = html("tbody");
  private readonly more = html("div", { class: "rest" });

  constructor(
    private readonly app: App,
    private readonly section: Section,
  ) {
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
    const { report, tooltip } = this.app;
    const label = report.two ? "Groups, before and after" : "Groups";
    const table = html(
      "table",
      { class: report.two ? "overview two" : "overview" },
      html("caption", { class: "hidden" }, label),
      html("thead", {}, this.head),
      this.body,
    );
    tooltip.delegate(this.body, "td[data-value]", (cell) => this.explain(cell));
    this.body.addEventListener("keydown", (event) => {
      this.key(event);
    });
    this.refresh();
    const scroll = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, table);
    return html("div", {}, this.toolbar(), scroll, this.more, this.footer());
  }

  /** The heading of the column with what changed most, if groups have that. */
  private get change(): string | null {
    const hasChanges = this.section.groups.some(({ verdict }) => verdict !== "");
    return this.app.report.document.verdicts ? "verdict" : hasChanges ? "change" : null;
  }

  /** The unit of times. */
  private get unit(): string {
    return this.section.values.get("run")?.unit ?? "";
  }

  /** Draws what depends on the filter, the order and what is open. */
  refresh(): void {
    const { report, state } = this.app;
    const rows: Rows = {
      report,
      hasChange: this.change !== null,
      columns: this.columns,
      largest: this.largest,
      scale: state.get("bars") === "share" ? null : scaleOf(this.outline.tops),
      capacity: report.document.capacity,
      link: (group) => (group.exited ? null : valuesOf(state, group)),
    };
    const expander = (group: Group) => {
      const toggle = () => {
        this.toggle(group);
      };
      return this.outline.below(group).length === 0 ? null : { isOpen: this.outline.isOpen(group), toggle };
    };
    const shown = this.outline.shown();
    const lines = shown.slice(0, this.drawn).flatMap((group) => this.outline.lines(group));
    this.heading();
    const drawn = (line: Line) => [overviewRow(line, rows, expander(line.group)), whyRow(line.group, rows)];
    this.body.replaceChildren(...lines.flatMap(drawn).filter((row) => row !== null));
    this.drawMore(shown.length);
  }

  private toolbar(): HTMLElement {
    const { report, state } = this.app;
    const scales: [string, string][] = [
      ["scale", "one scale for all groups"],
      ["share", "share of each group's time"],
    ];
    const by = ["change", "candidate", "baseline"].map((name): [string, string] => [name, name]);
    const sort = select("Sort columns by", by, state.get("by"), (value) => {
      state.set({ by: value });
    });
    const filter = filterInput("name of a group or thread", state.get("filter"), (text) => {
      this.drawn = AT_ONCE;
      state.set({ filter: text });
    });
    const bars = select("Bars", scales, state.get("bars"), (value) => {
      state.set({ bars: value });
    });
    const colors = legend(TIMES.map((name) => [name, name]));
    return html("div", { class: "toolbar" }, filter, report.two && sort, bars, colors);
  }

  private heading(): void {
    const { report, state } = this.app;
    const length = state.get("bars") === "share" ? null : scaleOf(this.outline.tops);
    const { capacity } = report.document;
    const cpus = capacity === null ? "" : `; ${counted(capacity / 100, "CPU")}: ${capacity}%`;
    const scale = length ? ` 0 to ${numberText(length, report.scale(this.unit))}${cpus}` : null;
    const doc = report.document.verdicts ? DOTS : "The largest change";
    const threads = "Number of threads; in a window, + started and − exited";
    this.head.replaceChildren(
      sortingHead(state, { key: "name", text: "group", kind: "name" }),
      html(
        "th",
        { scope: "col", class: "time" },
        `time${report.two ? ": baseline above, candidate below" : ""}`,
        scale,
      ),
      this.change === null ? "" : sortingHead(state, { key: "verdict", text: this.change, kind: "name", doc }),
      sortingHead(state, { key: "threads", text: "threads", doc: threads, kind: "number" }),
      ...this.columns.map(({ name, unit, doc }) =>
        sortingHead(state, { key: name, text: headingOf(name, unit), doc: `${doc} Unit: ${unit}`, kind: "number" }),
      ),
    );
  }

  private explain(cell: Element): string[] {
    const key = cell.closest("tr")?.getAttribute("data-key") ?? "";
    const name = cell.getAttribute("data-value") ?? "";
    const sections = [this.section, this.app.report.tree.get("overview")];
    const rows = sections.map((section) => section?.values.get(name)?.rows.find((row) => row.group.key === key));
    const row = rows.find((found) => found);
    return row ? explained(row) : [];
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
    const cells = [...(row?.querySelectorAll<HTMLElement>("td[data-value]") ?? [])];
    const [at, step] = [cells.findIndex((cell) => cell === target), { ArrowRight: 1, ArrowLeft: -1 }[event.key] ?? 0];
    const expander = row?.querySelector<HTMLButtonElement>("button.expander");
    const isOpen = expander?.getAttribute("aria-expanded") === "true";
    const rows = [...this.body.querySelectorAll("tr[data-key]")];
    const next = { ArrowDown: rows[rows.indexOf(row ?? target) + 1], ArrowUp: rows[rows.indexOf(row ?? target) - 1] }[
      event.key
    ];
    const first = "button.expander, a";
    const below = next?.querySelectorAll<HTMLElement>("td[data-value]")[at] ?? next?.querySelector<HTMLElement>(first);
    if (below) below.focus();
    else if (at < 0 && expander && event.key === (isOpen ? "ArrowLeft" : "ArrowRight")) expander.click();
    else if (step !== 0) (cells[at + step] ?? row?.querySelector<HTMLElement>(first))?.focus();
    else return;
    event.preventDefault();
  }

  private drawMore(count: number): void {
    const left = count - this.drawn;
    const upTo = (text: string, drawn: number) =>
      button(text, () => {
        this.drawn = drawn;
        this.refresh();
      });
    const some = `Show ${Math.min(left, AT_ONCE)} more of ${counted(left, "group")}`;
    const buttons = [upTo(some, this.drawn + AT_ONCE), ...(left > AT_ONCE ? [" ", upTo("Show all", Infinity)] : [])];
    this.more.replaceChildren(...(left > 0 ? buttons : []), count === 0 ? "No group matches the filter." : "");
  }

  /** What is left out, and why. */
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
    return html("p", { class: "note" }, parts.filter((part) => part).join("; "));
  }
}
