// The time axis of a series: stacked areas of the leading groups, a row per group, and a period to look at.

import type { App } from "./app";
import { average, commandOf, edges, endOf, isWhole, partAt, periodOf, sinceText, startOf, type Period } from "./course";
import type { Course, CourseColumn } from "./data";
import { html, legend, select, svg } from "./dom";
import { headingOf, numberText } from "./format";
import { sortedBy } from "./sorting";
import { table, type Column } from "./table";

const NONE = "The report has no steps. They are in series, which ctprof record --every 1s -o FILE records.";
const KEYS = "Drag over the chart, or move “from” and “to” with the arrow keys, to select a period.";

/** Groups with a color of their own. */
const LEADING = 6;
/** Groups that are drawn before a click on "more". */
const AT_ONCE = 30;
const [WIDTH, HEIGHT, ROW] = [1000, 200, 16];

interface Line {
  name: string;
  values: (number | null)[];
  average: number;
}

export class TimeView {
  private readonly chart = html("div", { class: "areas" });
  private readonly rest = html("div");
  private readonly command = html("p", { class: "command" });
  private readonly ends: HTMLInputElement[];

  constructor(
    private readonly app: App,
    private readonly course: Course,
  ) {
    this.ends = [0, 1].map((end) => {
      const input = () => {
        const [from, to] = this.ends.map((one) => Number(one.value)) as [number, number];
        this.choose(end === 0 ? [from, Math.max(from, to)] : [Math.min(from, to), to]);
      };
      return html("input", { type: "range", min: 0, max: course.duration_ns.length - 1, input });
    });
  }

  draw(): HTMLElement {
    const { state, tooltip } = this.app;
    const names = this.course.columns.map(({ name }): [string, string] => [name, name]);
    const column = select("Column", names, this.column()?.name ?? "", (name) => {
      state.set({ metric: `overview/${name}` });
    });
    const ends = ["from", "to"].map((text, end) => html("label", {}, `${text} `, this.ends[end] ?? null));
    tooltip.delegate(this.rest, "rect[data-part]", (rect) => this.explain(rect));
    this.drag();
    this.refresh();
    const element = html("div", { class: "course" }, html("div", { class: "toolbar" }, column, ...ends));
    element.append(this.command, this.chart, this.rest);
    return element;
  }

  refresh(): void {
    const period = this.period();
    const column = this.column();
    this.ends.forEach((input, end) => {
      const part = period[end] ?? 0;
      input.value = String(part);
      input.setAttribute("aria-valuetext", sinceText((end === 0 ? startOf : endOf)(this.course, part)));
    });
    const { file } = this.app.report.document;
    const command = isWhole(this.course, period) ? KEYS : html("code", {}, commandOf(this.course, file, period));
    this.command.replaceChildren(command);
    if (!column) return;
    const lines = this.lines(column, period);
    // Colors stay with their groups, whatever the period is.
    this.chart.replaceChildren(...this.areas(this.lines(column, this.whole), column, period));
    this.rest.replaceChildren(
      html("p", { class: "note" }, this.steps()),
      table("Groups over time", this.columns(lines, column, period), lines, undefined, AT_ONCE),
    );
  }

  private period(): Period {
    return periodOf(this.course, this.app.state.get("period"));
  }

  private get whole(): Period {
    return [0, this.course.duration_ns.length - 1];
  }

  private choose(period: Period): void {
    this.app.state.set({ period: isWhole(this.course, period) ? "" : period.join("..") });
  }

  private column(): CourseColumn | undefined {
    const { columns } = this.course;
    const chosen = this.app.state.get("metric");
    return columns.find(({ name }) => `overview/${name}` === chosen) ?? columns[0];
  }

  /** The groups by what they did in the period. */
  private lines({ groups, values }: CourseColumn, period: Period): Line[] {
    const lines = groups.map((index, at) => ({
      name: this.app.report.pathOf(index).join(" » "),
      values: values[at] ?? [],
      average: average(this.course, values[at] ?? [], period),
    }));
    return sortedBy(lines, false, (line) => line.average);
  }

  /** The leading groups and the sum of the others, one on top of the other. */
  private areas(lines: Line[], column: CourseColumn, period: Period): Node[] {
    const parts = this.course.duration_ns.map((_, part) => part);
    const sum = (list: Line[]) => parts.map((part) => list.reduce((all, { values }) => all + (values[part] ?? 0), 0));
    const others = lines.slice(LEADING);
    const bands = [...lines.slice(0, LEADING).map(({ values }) => values.map((value) => value ?? 0))];
    if (others.length > 0) bands.push(sum(others));
    const capacity = column.name === "run" ? this.app.report.document.capacity : null;
    const most = Math.max(...sum(lines), capacity ?? 0) || 1;
    const y = (value: number) => (HEIGHT * (1 - value / most)).toFixed(1);
    let below = parts.map(() => 0);
    const paths = bands.map((band, at) => {
      const above = below.map((value, part) => value + (band[part] ?? 0));
      const edge = (part: number, level: number[]) => {
        const [left, right] = edges(this.course, part).map((share) => (share * WIDTH).toFixed(1));
        return [`${left},${y(level[part] ?? 0)}`, `${right},${y(level[part] ?? 0)}`];
      };
      const [top, bottom] = [parts.flatMap((part) => edge(part, above)), parts.flatMap((part) => edge(part, below))];
      below = above;
      return svg("path", {
        class: at < LEADING ? `band${at}` : "other",
        d: `M${[...top, ...bottom.reverse()].join("L")}Z`,
      });
    });
    const text = this.texts(column);
    const cpus = capacity === null ? "" : `, the line is all CPUs: ${text(capacity)}`;
    const label = `${headingOf(column.name, column.unit)} over time, 0 to ${text(most)}${cpus}`;
    const line = capacity === null ? null : svg("rect", { class: "capacity", y: y(capacity), width: WIDTH, height: 1 });
    const attributes = { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img" };
    const names = lines.slice(0, LEADING).map(({ name }, at): [string, string] => [`band${at}`, name]);
    return [
      html("p", { class: "note" }, label),
      svg("svg", { ...attributes, "aria-label": label }, ...paths, line, ...this.shade(period, HEIGHT)),
      this.axis(),
      legend(others.length > 0 ? [...names, ["other", `${others.length} other`]] : names),
    ];
  }

  /** What is outside of the period. */
  private shade([from, to]: Period, height: number): SVGElement[] {
    const [left, right] = [edges(this.course, from)[0] * WIDTH, edges(this.course, to)[1] * WIDTH];
    const sides = [
      [0, left],
      [right, WIDTH - right],
    ] as const;
    return sides.map(([x, width]) => svg("rect", { class: "shade", x, width: Math.max(0, width), height }));
  }

  private axis(): HTMLElement {
    const { course } = this;
    const whole = endOf(course, course.duration_ns.length - 1);
    const start = new Date((course.started_at_unix_ns[0] ?? 0) / 1e6).toISOString().slice(11, 19);
    const text = (share: number) => sinceText(Math.round((share * whole) / 1e7) * 1e7);
    const ticks = [0, 0.25, 0.5, 0.75].map((share) => html("span", {}, share === 0 ? `${start} UTC` : text(share)));
    return html("div", { class: "axis" }, ...ticks, html("span", {}, text(1)));
  }

  private texts({ unit }: CourseColumn): (number: number) => string {
    return (number) => numberText(number, this.app.report.scale(unit));
  }

  private columns(lines: Line[], column: CourseColumn, period: Period): Column<Line>[] {
    const text = this.texts(column);
    const most = Math.max(0, ...lines.flatMap(({ values }) => values.map((value) => value ?? 0)));
    return [
      { key: "group", text: "group", kind: "name", cell: (line) => line.name },
      { key: "course", text: "over time", cell: (line) => this.row(line, most, period) },
      { key: "average", text: headingOf(column.name, column.unit), kind: "number", cell: (line) => text(line.average) },
    ];
  }

  /** A cell per part, stronger where the group did more. */
  private row({ name, values }: Line, most: number, period: Period): SVGElement {
    const cells = values.map((value, part) => {
      if (!value) return null;
      const [left, right] = edges(this.course, part);
      const opacity = Math.sqrt(value / most).toFixed(2);
      const [x, width] = [(left * WIDTH).toFixed(1), ((right - left) * WIDTH).toFixed(1)];
      return svg("rect", { "data-part": part, "data-group": name, x, width, height: ROW, "fill-opacity": opacity });
    });
    const attributes = { class: "row", viewBox: `0 0 ${WIDTH} ${ROW}`, preserveAspectRatio: "none", role: "img" };
    return svg("svg", { ...attributes, "aria-label": `${name} over time` }, ...cells, ...this.shade(period, ROW));
  }

  private explain(rect: Element): string[] {
    const column = this.column();
    const [part, name] = [Number(rect.getAttribute("data-part")), rect.getAttribute("data-group") ?? ""];
    if (!column) return [];
    const line = this.lines(column, this.period()).find((one) => one.name === name);
    const time = [startOf(this.course, part), endOf(this.course, part)].map(sinceText).join("..");
    return [
      `${name}: ${headingOf(column.name, column.unit)}`,
      `${time}: ${this.texts(column)(line?.values[part] ?? 0)}`,
    ];
  }

  /** How long the parts are. */
  private steps(): string {
    const sorted = [...this.course.duration_ns].sort((a, b) => a - b);
    const [least = 0, most = 0] = [sorted[0], sorted.at(-1)];
    return `${sorted.length} parts of ${sinceText(least)} to ${sinceText(most)}. Steps of the recording are merged where there are more than 240.`;
  }

  /** A period is selected with the pointer; what is selected meanwhile is only drawn. */
  private drag(): void {
    const at = ({ clientX }: PointerEvent) => {
      const { left, width } = (this.chart.querySelector("svg") ?? this.chart).getBoundingClientRect();
      return partAt(this.course, Math.min(1, Math.max(0, (clientX - left) / width)));
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
      this.chart.querySelectorAll(".shade").forEach((one) => {
        one.remove();
      });
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

export const noSteps = (): HTMLElement => html("p", {}, NONE);
