// Which groups the overview shows, in which order, and which of them are open.

import type { App } from "./app";
import { changeOf, type Group, type Section } from "./data";
import { orderOf, sortedBy } from "./sorting";

/** A group, and how far below a group at the top it is. */
export interface Line {
  group: Group;
  depth: number;
}

export class Outline {
  /** The groups at the top. */
  readonly tops: Group[];

  constructor(
    private readonly app: App,
    section: Section,
  ) {
    this.tops = section.groups.filter((group) => group.parent === null);
  }

  /** The groups at the top that match the filter, in order. */
  shown(): Group[] {
    return this.sorted(this.tops.filter((group) => this.matches(group)));
  }

  /** A group, its exited work, and what is below it if it is open. */
  lines(group: Group, depth = 0): Line[] {
    const exited = group.children.filter((child) => child.exited);
    const below = this.isOpen(group) ? this.below(group) : [];
    const shown = this.isNamed(group) ? below : below.filter((child) => this.matches(child));
    return [
      { group, depth },
      ...exited.map((child) => ({ group: child, depth: depth + 1 })),
      ...this.sorted(shown).flatMap((child) => this.lines(child, depth + 1)),
    ];
  }

  below(group: Group): Group[] {
    return this.app.report.below(group).filter((child) => !child.exited);
  }

  /** Whether a group was opened, is the only one, or only something below it matches the filter. */
  isOpen(group: Group): boolean {
    const isOnly = this.tops.length === 1 && group === this.tops[0];
    return !this.isNamed(group) || this.opened().has(group.key) !== isOnly;
  }

  toggle(group: Group): void {
    const opened = this.opened();
    if (!opened.delete(group.key)) opened.add(group.key);
    this.app.state.set({ open: opened.size > 0 ? JSON.stringify([...opened]) : "" });
  }

  /** The keys in the fragment, which anyone may have written. */
  private opened(): Set<string> {
    try {
      const list: unknown = JSON.parse(this.app.state.get("open") || "[]");
      return new Set(Array.isArray(list) ? list.filter((key) => typeof key === "string") : []);
    } catch {
      return new Set();
    }
  }

  private isNamed(group: Group): boolean {
    return group.name.toLowerCase().includes(this.app.state.get("filter").toLowerCase());
  }

  private matches(group: Group): boolean {
    return this.isNamed(group) || this.below(group).some((child) => this.matches(child));
  }

  private sorted(groups: Group[]): Group[] {
    const order = orderOf({ state: this.app.state, key: "sort" });
    return order ? sortedBy(groups, order.reverse, (group) => this.sortKey(group, order.key)) : groups;
  }

  private sortKey(group: Group, key: string): number | string | null {
    const by = this.app.report.two ? this.app.state.get("by") : "candidate";
    const side = by === "baseline" ? 0 : -1;
    if (key === "name") return group.name;
    if (key === "verdict") return group.verdict;
    if (key === "threads") return group.threads?.number ?? null;
    const row = group.section.values.get(key)?.row.get(group);
    if (by !== "change") return row?.cells.at(side)?.number ?? null;
    const change = changeOf(row);
    return change === null ? null : Math.abs(change);
  }
}
