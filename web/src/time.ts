// The time axis of a series: stacked columns of the leading groups, a row per group, and a period to look at.

import type { App } from "./app";
import * as trends from "./trends";
import type { Period } from "./trends";
import type { Trends, TrendColumn } from "./data";
import { html, legend, note, select, svg } from "./dom";
import { headingOf, numberText } from "./format";
import { drawing, mark } from "./marks";
import { partLine } from "./period";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

const KEYS = "Drag over the chart, or move “from” and “to” with the arrow keys, to select a period.";

/** Groups with a color of their own. */
const LEADING = 6;
/** Groups that are drawn before a click on "more". */
const GROUPS_BEFORE_MORE = 30;
const [WIDTH, HEIGHT, ROW] = [1000, 200, 16];

interface Line {
  name: string;
  values: (number | null)[];
  average: number | null;
}

export class TimeView {
  private readonly chart = html("div", { class: "areas" });
  private readonly rest = html("div");
  private readonly part = html("div");
  private readonly ends: HTMLInputElement[];

  constructor(
    private readonly app: App,
    private readonly trends: Trends,
  ) {
    this.ends = [0, 1].map((end) => {
      const input = () => {
        const [from, to] = this.ends.map((one) => Number(one.value)) as [number, number];
        this.choose(end === 0 ? [from, Math.max(from, to)] : [Math.min(from, to), to]);
      };
      return html("input", { type: "range", min: 0, max: trends.duration_ns.length - 1, input });
    });
  }

  draw(): HTMLElement {
    const { state } = this.app;
    const names = this.trends.columns
      .filter(({ groups }) => groups.length > 0)
      .map(({ name }): [string, string] => [name, name]);
    const column = select("Column", names, this.column()?.name ?? "", (name) => {
      state.set({ metric: `overview/${name}` });
    });
    const ends = ["from", "to"].map((text, end) => html("label", {}, `${text} `, this.ends[end] ?? null));
    this.drag();
    this.refresh();
    const toolbar = html("div", { class: "toolbar" }, column, ...ends);
    return html("div", { class: "trends" }, toolbar, this.part, this.chart, this.rest);
  }

  refresh(): void {
    const period = this.period();
    const column = this.column();
    this.ends.forEach((input, end) => {
      const part = period[end] ?? 0;
      input.value = String(part);
      const text = trends.sinceText((end === 0 ? trends.startOf : trends.endOf)(this.trends, part));
      input.setAttribute("aria-valuetext", text);
    });
    const isWhole = trends.isWhole(this.trends, period);
    this.part.replaceChildren(
      isWhole ? html("p", { class: "hint" }, KEYS) : partLine(this.app, "", this.trends, period),
    );
    if (!column) return;
    const lines = this.lines(column, period);
    // Colors stay with their groups, whatever the period is.
    this.chart.replaceChildren(...this.areas(this.lines(column, this.whole), column, period));
    this.rest.replaceChildren(
      note(`${this.whole[1] + 1} parts. Steps of the recording are merged where there are more.`),
      table("Groups over time", this.columns(lines, column, period), lines, undefined, GROUPS_BEFORE_MORE),
    );
  }

  private period(): Period {
    return trends.periodOf(this.trends, this.app.state.get("period"));
  }

  private get whole(): Period {
    return [0, this.trends.duration_ns.length - 1];
  }

  private choose(period: Period): void {
    this.app.state.set({ period: trends.isWhole(this.trends, period) ? "" : period.join("..") });
  }

  private column(): TrendColumn | undefined {
    const { columns } = this.trends;
    const chosen = this.app.state.get("metric");
    return columns.find(({ name }) => `overview/${name}` === chosen) ?? columns[0];
  }

  /** The groups by what they did in the period. */
  private lines({ groups, values }: TrendColumn, period: Period): Line[] {
    const lines = groups.map((index, at) => ({
      name: this.app.report.pathOf(index).join(" » "),
      values: values[at] ?? [],
      average: trends.average(this.trends, values[at] ?? [], period),
    }));
    return sortedBy(lines, false, (line) => line.average);
  }

  /** The leading groups and the sum of the others, one on top of the other. */
  private areas(lines: Line[], column: TrendColumn, period: Period): Node[] {
    const parts = this.trends.duration_ns.map((_, part) => part);
    const sum = (list: Line[]) => parts.map((part) => list.reduce((all, { values }) => all + (values[part] ?? 0), 0));
    const others = lines.slice(LEADING);
    const bands = lines.slice(0, LEADING);
    if (others.length > 0) bands.push({ name: `${others.length} other groups`, values: sum(others), average: 0 });
    const sums = sum(lines);
    const isOfCpus = ["run", "usr", "sys"].includes(column.name);
    const top = trends.topOf(sums, isOfCpus ? this.app.report.document.capacity : null);
    const text = this.texts(column);
    const y = (value: number) => HEIGHT * (1 - Math.min(1, value / top));
    let below = parts.map(() => 0);
    const rows = bands.map(({ name, values }, at) => {
      const above = below.map((value, part) => value + (values[part] ?? 0));
      const rects = parts.map((part) => {
        const [from, to] = [y(below[part] ?? 0), y(above[part] ?? 0)];
        // Columns overlap a little, so that no line shows between them.
        const width = Number(this.place(part).width) + 0.5;
        const size = { y: to.toFixed(1), height: (from - to).toFixed(1), width };
        return this.cell(part, size, `${name}: ${text(values[part])}`, `together: ${text(sums[part] ?? 0)}`);
      });
      below = above;
      return svg("g", { class: at < LEADING ? `band${at}` : "other" }, ...rects);
    });
    const heading = headingOf(column.name, column.unit);
    const label = `${heading} over time from ${this.trends.start}, 0 to ${text(top)}${isOfCpus ? ", which is all CPUs" : ""}`;
    const names = bands.map(({ name }, at): [string, string] => [at < LEADING ? `band${at}` : "other", name]);
    const cut = sums.filter((value) => value > top * 1.01);
    const scale = this.app.report.scale(column.unit);
    const levels = trends.ticks(top, scale).map((value) => this.tick("top", 1 - value / top, text(value)));
    const marks = parts.filter((part) => (sums[part] ?? 0) > top * 1.01);
    const cuts = marks.map((part) => svg("rect", { class: "cut", y: 2, height: 2, ...this.place(part) }));
    const notes = [
      cut.length > 0 && `${cut.length} of ${sums.length} parts are cut: they are up to ${text(Math.max(...cut))}.`,
      column.name === "wait" && "The kernel counts a wait in the part in which it ends.",
    ];
    const plot = drawing("", label, [WIDTH, HEIGHT], ...rows, ...cuts, ...this.shade(period, HEIGHT));
    return [
      note([label, ...notes.filter((one) => one)].join(". ")),
      html("div", { class: "plot" }, ...levels, plot),
      this.axis(),
      legend(names),
    ];
  }

  private place(part: number): { x: string; width: string } {
    const [left, right] = trends.edges(this.trends, part);
    return { x: (left * WIDTH).toFixed(1), width: ((right - left) * WIDTH).toFixed(1) };
  }

  /** What a group did in a part. */
  private cell(part: number, size: Record<string, string | number>, ...lines: string[]): SVGElement {
    const time = [trends.startOf(this.trends, part), trends.endOf(this.trends, part)].map(trends.sinceText).join("..");
    const [title = "", ...rest] = lines;
    return mark("rect", { ...this.place(part), ...size }, title, time, ...rest);
  }

  /** What is outside of the period. */
  private shade([from, to]: Period, height: number): SVGElement[] {
    const [left, right] = [trends.edges(this.trends, from)[0] * WIDTH, trends.edges(this.trends, to)[1] * WIDTH];
    const sides = [
      [0, left],
      [right, WIDTH - right],
    ] as const;
    return sides.map(([x, width]) => svg("rect", { class: "shade", x, width: Math.max(0, width), height }));
  }

  private tick(edge: "top" | "left", share: number, text: string): HTMLElement {
    const tick = html("span", { class: "tick" }, text);
    tick.style.setProperty(edge, `${(share * 100).toFixed(2)}%`);
    return tick;
  }

  private axis(): HTMLElement {
    const whole = trends.endOf(this.trends, this.whole[1]) || 1;
    const ticks = trends.timeTicks(this.trends).filter((ns) => ns < whole * 0.97);
    return html("div", { class: "times" }, ...ticks.map((ns) => this.tick("left", ns / whole, trends.sinceText(ns))));
  }

  private texts({ unit }: TrendColumn): (number?: number | null) => string {
    return (number) => (typeof number === "number" ? numberText(number, this.app.report.scale(unit)) : "-");
  }

  private columns(lines: Line[], column: TrendColumn, period: Period): Column<Line>[] {
    const text = this.texts(column);
    const most = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
    const heading = headingOf(column.name, column.unit);
    const row = (line: Line) => this.row(line, most, period, text);
    return [
      { key: "group", text: "group", kind: "name", cell: (line) => line.name },
      { key: "trend", text: "over time", kind: "bar", copy: null, cell: row },
      { key: "average", text: `${heading} on average`, kind: "number", cell: (line) => text(line.average) },
    ];
  }

  /** A cell per part, stronger where the group did more. */
  private row({ name, values }: Line, most: number, period: Period, text: (number: number) => string): SVGElement {
    const cells = values.map((value, part) => {
      if (!value) return null;
      const size = { height: ROW, "fill-opacity": Math.sqrt(value / most).toFixed(2) };
      return this.cell(part, size, `${name}: ${text(value)}`);
    });
    return drawing("row", `${name} over time`, [WIDTH, ROW], ...cells, ...this.shade(period, ROW));
  }

  /** A period is selected with the pointer; what is selected meanwhile is only drawn. */
  private drag(): void {
    const at = ({ clientX }: PointerEvent) => {
      const { left, width } = (this.chart.querySelector("svg") ?? this.chart).getBoundingClientRect();
      return trends.partAt(this.trends, Math.min(1, Math.max(0, (clientX - left) / width)));
    };
    let began: number | null = null;
    this.chart.addEventListener("pointerdown", (event) => {
      if (!(event.target as Element).closest("svg")) return;
      began = at(event);
      this.chart.setPointerCapture(event.pointerId);
      event.preventDefault();
    });
    this.chart.addEventListener("pointermove", (event) => {
      if (began === null) return;
      const period: Period = [Math.min(began, at(event)), Math.max(began, at(event))];
      this.chart.querySelectorAll(".shade").forEach((one) => one.remove());
      this.chart.querySelector("svg")?.append(...this.shade(period, HEIGHT));
    });
    this.chart.addEventListener("pointerup", (event) => {
      if (began === null) return;
      const [first, last] = [began, at(event)];
      began = null;
      // A click selects everything again.
      this.choose(first === last ? this.whole : [Math.min(first, last), Math.max(first, last)]);
    });
  }
}
