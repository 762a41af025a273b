// The treemap: cgroups, processes and threads as nested rectangles.

import { changeShare, chartable, room, TIMES, valueNamed, valuesOf, type App } from "./app";
import { numberOf, numbersOf, type Group, type Row, type Section, type Value } from "./data";
import { activate, button, html, legend, roving, select, svg } from "./dom";
import { explained } from "./overview_row";
import { squarified, type Rectangle } from "./squarified";

interface Item {
  group: Group;
  size: number;
}

/** Height of the name above the rectangles within a group. */
const TITLE = 18;
/** Width of a letter on average. */
const LETTER = 6.6;
/** Smaller rectangles have no name, or are not drawn. */
const [LEAST_NAMED, LEAST_DRAWN] = [34, 3];

const KEYS = "A click or Enter zooms in, Escape zooms out, arrows move between groups. Idle groups are left out.";

export class Treemap {
  private readonly map = html("div");
  private readonly crumbs = html("nav", { "aria-label": "Zoom" });
  private readonly section: Section | undefined;

  constructor(private readonly app: App) {
    this.section = app.report.tree.get("overview") ?? app.report.overview;
  }

  draw(): HTMLElement {
    const element = html("div", { class: "treemap" }, this.toolbar(), this.map, html("p", { class: "note" }, KEYS));
    element.addEventListener("keydown", (event) => {
      const zoom = this.zoomed();
      if (event.key === "Escape" && zoom) this.zoom(zoom.parent?.key ?? "");
    });
    this.refresh();
    return element;
  }

  refresh(): void {
    const [value, root] = [this.value(), this.zoomed()];
    const groups = root ? this.children(root) : (this.section?.groups.filter((group) => group.parent === null) ?? []);
    const items = value ? this.items(groups, value) : [];
    this.drawCrumbs(root);
    if (!value || items.length === 0) {
      this.map.replaceChildren(html("p", {}, `No group has ${value?.name ?? "an overview"} here.`));
      return;
    }
    const focusable: SVGElement[] = [];
    const { width, height } = room();
    const drawn = this.nested(items, { x: 0, y: 0, width, height }, value, 0, focusable);
    const label = `${value.name} of ${root ? root.path.join(" » ") : "all groups"} as areas`;
    const attributes = { viewBox: `0 0 ${width} ${height}`, role: "group", "aria-label": label };
    this.map.replaceChildren(svg("svg", attributes, ...drawn));
    roving(focusable);
  }

  private toolbar(): HTMLElement {
    const { report, state } = this.app;
    const sides = ["candidate", "baseline"].map((side): [string, string] => [side, side]);
    const values = this.section ? [...chartable([this.section]).values()].flat() : [];
    const value = this.value();
    const area = select("Area", values, value ? `${value.section.name}/${value.name}` : "", (metric) => {
      state.set({ metric });
    });
    const side = select("of the", sides, state.get("side"), (name) => {
      state.set({ side: name });
    });
    const colors = legend([
      ["less", "less than before"],
      ["same", "same"],
      ["more", "more, or new"],
    ]);
    return html("div", { class: "toolbar" }, area, report.two && side, report.two && colors, this.crumbs);
  }

  private value(): Value | undefined {
    const chosen = valueNamed(this.app.report.tree, this.app.state.get("metric"));
    return chosen?.section === this.section ? chosen : this.section?.values.get(TIMES[0]);
  }

  private zoomed(): Group | undefined {
    return this.section?.groups.find((group) => group.key === this.app.state.get("zoom"));
  }

  private children(group: Group): Group[] {
    return group.children.length > 0 ? group.children : [group];
  }

  private zoom(key: string): void {
    this.app.state.set({ zoom: key });
    this.map.querySelector<SVGElement>("[tabindex='0']")?.focus();
  }

  private drawCrumbs(root: Group | undefined): void {
    const crumb = (key: string, text: string) =>
      button(text, () => {
        this.zoom(key);
      });
    const chain: Group[] = [];
    for (let group = root ?? null; group; group = group.parent) chain.unshift(group);
    this.crumbs.replaceChildren(
      ...(root ? [crumb("", "all"), ...chain.flatMap((group) => [" » ", crumb(group.key, group.name)])] : []),
      ...(root ? [" ", html("a", { href: valuesOf(this.app.state, root) }, "All values")] : []),
    );
  }

  private items(groups: Group[], value: Value): Item[] {
    const side = this.app.state.get("side") === "baseline" ? 0 : -1;
    const items = groups.map((group) => ({ group, size: numberOf(value.row.get(group)?.cells.at(side)) ?? 0 }));
    return items.filter(({ size }) => size > 0).sort((a, b) => b.size - a.size);
  }

  private nested(
    items: Item[],
    box: Rectangle,
    value: Value,
    depth: number,
    focusable: SVGElement[],
    whole = 0,
  ): SVGElement[] {
    const all = Math.max(
      whole,
      items.reduce((sum, { size }) => sum + size, 0),
    );
    return squarified(items, box, all).flatMap(({ item, at }) => {
      if (at.width < LEAST_DRAWN || at.height < LEAST_DRAWN) return [];
      const element = this.rectangle(item.group, at, value, depth);
      if (depth === 0) focusable.push(element);
      const inner = { x: at.x + 2, y: at.y + TITLE, width: at.width - 4, height: at.height - TITLE - 2 };
      const below = inner.width > 20 && inner.height > 16 ? this.items(item.group.children, value) : [];
      return [element, ...this.nested(below, inner, value, depth + 1, focusable, item.size)];
    });
  }

  private rectangle(group: Group, at: Rectangle, value: Value, depth: number): SVGElement {
    const row = value.row.get(group);
    const lines = () => (row ? explained(row) : [group.name]);
    const attributes = {
      role: "button",
      "aria-label": lines().slice(0, 4).join(", "),
      "aria-hidden": depth > 0 && "true",
    };
    const element = svg("g", attributes, colored(row, at, this.app.report.two), named(group.name, at));
    this.app.tooltip.attach(element, lines);
    activate(element, () => {
      this.zoom(this.stepTo(group).key);
    });
    return element;
  }

  /** The group on the way from the current zoom to another group, one step further. */
  private stepTo(group: Group): Group {
    const depth = (this.zoomed()?.path.length ?? 0) + 1;
    let step = group;
    while (step.parent && step.path.length > depth) step = step.parent;
    return step;
  }
}

/** Smaller changes have the color of none, as a share of the larger value. */
const LEAST_CHANGE = 0.02;

/** A rectangle with the color of the change, stronger if it is larger. */
function colored(row: Row | undefined, { x, y, width, height }: Rectangle, two: boolean): SVGElement {
  const [first, second] = numbersOf(row) ?? [];
  const change = two ? changeShare(first ?? 0, second ?? 0) : 0;
  const kind = change > LEAST_CHANGE ? "more" : change < -LEAST_CHANGE ? "less" : "same";
  const rect = svg("rect", { class: kind, x, y, width: Math.max(0, width - 1), height: Math.max(0, height - 1) });
  rect.style.setProperty("--heat", Math.min(1, Math.abs(change) * 1.2 + 0.1).toFixed(2));
  return rect;
}

/** The name, or as much of it as has room. */
function named(name: string, { x, y, width, height }: Rectangle): SVGElement | null {
  if (width < LEAST_NAMED || height < TITLE) return null;
  const letters = Math.floor((width - 8) / LETTER);
  const text = name.length > letters ? `${name.slice(0, Math.max(1, letters - 1))}…` : name;
  return svg("text", { x: x + 4, y: y + 13, "aria-hidden": "true" }, text);
}
