// Baseline against candidate on logarithmic axes: a dot per group, off the diagonal if it changed.

import { chartable, room, valueNamed, type App } from "./app";
import { changeOf, isUnclear, numbersOf, type Row, type Value } from "./data";
import { activate, html, roving, select, svg } from "./dom";
import { counted, numberText } from "./format";
import { explained } from "./overview_row";

const MARGIN = { left: 74, right: 30, top: 14, bottom: 48 };
/** Room for groups with 0 on a side, before the logarithmic part. */
const ZERO = { x: 90, y: 36 };
/** The groups that changed most have a name. */
const NAMED = 12;
/** Width of a letter on average. */
const LETTER = 7;

interface Dot {
  row: Row;
  baseline: number;
  candidate: number;
}

export class Scatter {
  private readonly plot = html("div", { class: "scatter" });
  private readonly note = html("p", { class: "note" });

  constructor(private readonly app: App) {}

  draw(): HTMLElement {
    const { report, state } = this.app;
    const value = this.value();
    const name = value ? `${value.section.name}/${value.name}` : "";
    const element = html(
      "div",
      {},
      html(
        "div",
        { class: "toolbar" },
        select("Value", chartable(report.sections.values()), name, (metric) => {
          state.set({ metric });
        }),
      ),
      this.plot,
      this.note,
    );
    this.refresh();
    return element;
  }

  refresh(): void {
    const value = this.value();
    const dots = (value?.rows ?? []).flatMap((row): Dot[] => {
      const [baseline, candidate] = row.group.exitedWork ? [] : (numbersOf(row) ?? []);
      return baseline !== undefined &&
        candidate !== undefined &&
        baseline >= 0 &&
        candidate >= 0 &&
        baseline + candidate > 0
        ? [{ row, baseline, candidate }]
        : [];
    });
    if (!value || dots.length === 0) {
      this.plot.replaceChildren(html("p", {}, "No group has a value to draw."));
      return;
    }
    this.plot.replaceChildren(this.chart(value, dots));
    const zeros = dots.filter(({ baseline, candidate }) => baseline === 0 || candidate === 0).length;
    this.note.textContent = `${value.name}: ${value.doc} ${counted(dots.length, "group")}${zeros > 0 ? `, ${zeros} of them at 0 on a side or only on one side` : ""}. Above the diagonal: more than before. Enter shows all values of a group.`;
  }

  private value(): Value | undefined {
    const { report, state } = this.app;
    const [first] = chartable(report.sections.values()).values();
    return (
      valueNamed(report.sections, state.get("metric")) ??
      (first?.[0] ? valueNamed(report.sections, first[0][0]) : undefined)
    );
  }

  private chart(value: Value, dots: Dot[]): SVGElement {
    const numbers = dots.flatMap(({ baseline, candidate }) => [baseline, candidate]).filter((number) => number > 0);
    const size = room();
    const axis = new Axis(Math.min(...numbers), Math.max(...numbers), value.unit, size);
    const ranked = dots.toSorted((a, b) => Math.abs(changeOf(b.row) ?? 0) - Math.abs(changeOf(a.row) ?? 0));
    const elements = ranked.map((dot, rank) => this.dot(dot, axis, rank));
    roving(elements);
    const label = `${value.name} of each group: baseline to the right, candidate upward`;
    return svg(
      "svg",
      { viewBox: `0 0 ${size.width} ${size.height}`, role: "group", "aria-label": label },
      ...axis.draw(),
      ...ranked.flatMap((dot) => whisker(dot, axis)),
      ...elements.toReversed(),
      ...names(ranked, axis),
    );
  }

  private dot({ row, baseline, candidate }: Dot, axis: Axis, rank: number): SVGElement {
    const [x, y] = [axis.x(baseline), axis.y(candidate)];
    const kind = isUnclear(row) || candidate === baseline ? "same" : candidate > baseline ? "more" : "less";
    const lines = () => explained(row);
    const circle = svg("circle", {
      class: kind,
      cx: x,
      cy: y,
      r: rank < NAMED ? 5 : 3.5,
      role: "link",
      "aria-label": lines().slice(0, 4).join(", "),
    });
    this.app.tooltip.attach(circle, lines);
    activate(circle, () => {
      this.app.state.set({ view: "values", group: row.group.key, section: "", sort: "" });
    });
    return circle;
  }
}

/** The 95% interval of the candidate: of the ratio, from the baseline on. */
function whisker({ row, baseline }: Dot, axis: Axis): SVGElement[] {
  if (!row.interval || baseline === 0) return [];
  const [low, high] = row.interval;
  const x = axis.x(baseline);
  return [
    svg("line", { class: "whisker", x1: x, x2: x, y1: axis.y(low * baseline), y2: axis.y((high ?? 1e9) * baseline) }),
  ];
}

/** A place that a dot or a name takes. */
interface Taken {
  x: number;
  y: number;
  width: number;
}

const overlap = (a: Taken, b: Taken): boolean => Math.abs(a.y - b.y) < 11 && a.x < b.x + b.width && b.x < a.x + a.width;

/** The names of the groups that changed most, right or left of their dots, where nothing else is. */
function names(ranked: Dot[], axis: Axis): SVGElement[] {
  const dots = ranked.slice(0, NAMED).map((dot) => ({ dot, x: axis.x(dot.baseline), y: axis.y(dot.candidate) }));
  const taken: Taken[] = dots.map(({ x, y }) => ({ x: x - 5, y, width: 10 }));
  return dots.flatMap(({ dot, x, y }) => {
    const { name } = dot.row.group;
    const text = name.length > 24 ? `${name.slice(0, 23)}…` : name;
    const width = text.length * LETTER;
    const places = [x + 9, x - 9 - width].map((left) => ({ x: left, y, width }));
    const isFree = (place: Taken) =>
      place.x > 0 && place.x + width < axis.size.width && !taken.some((other) => overlap(place, other));
    const place = places.find(isFree);
    if (!place) return [];
    taken.push(place);
    return [svg("text", { class: "label", x: place.x, y: y + 4, "aria-hidden": "true" }, text)];
  });
}

/** The same logarithmic scale for both axes, with room for 0 before it. */
class Axis {
  private readonly low: number;
  private readonly high: number;

  constructor(
    least: number,
    most: number,
    private readonly unit: string,
    readonly size: { width: number; height: number },
  ) {
    // At most 6 powers of ten: smaller values are drawn as the smallest.
    this.high = Math.ceil(Math.log10(most) + 0.02);
    this.low = Math.max(Math.floor(Math.log10(least)), this.high - 6);
  }

  x(number: number): number {
    return MARGIN.left + this.along(number, this.size.width - MARGIN.left - MARGIN.right, ZERO.x);
  }

  y(number: number): number {
    return this.size.height - MARGIN.bottom - this.along(number, this.size.height - MARGIN.top - MARGIN.bottom, ZERO.y);
  }

  draw(): SVGElement[] {
    const [left, bottom] = [MARGIN.left, this.size.height - MARGIN.bottom];
    const ticks = Array.from({ length: this.high - this.low + 1 }, (_, at) => 10 ** (this.low + at));
    const lines = [0, ...ticks].flatMap((tick) => {
      const text = tick === 0 ? "0" : this.text(tick);
      return [
        svg("line", {
          class: "grid",
          x1: left,
          x2: this.size.width - MARGIN.right,
          y1: this.y(tick),
          y2: this.y(tick),
        }),
        svg("line", { class: "grid", x1: this.x(tick), x2: this.x(tick), y1: MARGIN.top, y2: bottom }),
        svg("text", { class: "tick end", x: left - 8, y: this.y(tick) + 4 }, text),
        svg("text", { class: "tick middle", x: this.x(tick), y: bottom + 18 }, text),
      ];
    });
    const [first, last] = [10 ** this.low, 10 ** this.high];
    return [
      ...lines,
      svg("line", { class: "diagonal", x1: this.x(first), y1: this.y(first), x2: this.x(last), y2: this.y(last) }),
      svg("text", { class: "axis middle", x: (left + this.size.width) / 2, y: this.size.height - 6 }, "baseline"),
      svg(
        "text",
        { class: "axis middle", transform: `translate(14 ${this.size.height / 2}) rotate(-90)` },
        "candidate",
      ),
    ];
  }

  private along(number: number, length: number, zero: number): number {
    if (number <= 0) return zero / 2;
    const share = (Math.log10(number) - this.low) / (this.high - this.low);
    return zero + Math.min(1, Math.max(0, share)) * (length - zero);
  }

  private text(tick: number): string {
    if (tick < 1) return `${String(tick)}${this.unit === "percent" ? "%" : ""}`;
    return numberText(tick, this.unit).replace(/\.0+(?=\D|$)/, "");
  }
}
