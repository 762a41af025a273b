// What every view has at hand.

import type { Group, Report, Section, Value } from "./data";
import type { Tooltip } from "./dom";
import type { State } from "./state";

export interface App {
  report: Report;
  state: State;
  tooltip: Tooltip;
}

/** The room for a chart on the screen. */
export function room(): { width: number; height: number } {
  const main = document.querySelector("main")?.getBoundingClientRect();
  const { clientWidth, clientHeight } = document.documentElement;
  const width = Math.max(main?.width ?? clientWidth, 300);
  return { width, height: Math.max(width < 700 ? 420 : 360, clientHeight - (main?.top ?? 0) - 100) };
}

/** The address of all values of a group. */
export const valuesOf = (state: State, group: Group): string =>
  state.link({ view: "values", group: group.key, section: "", sort: "", filter: "" });

/** The parts of a group's time, in the order of its bar. */
export const TIMES = ["run", "wait", "block", "sleep"] as const;

/** The values of sections that charts can draw, by section, as options of a selection. */
export function chartable(sections: Iterable<Section>): Map<string, [string, string][]> {
  const options = new Map<string, [string, string][]>();
  for (const section of sections) {
    const values = [...section.values.values()].filter((value) =>
      value.rows.some((row) => row.cells.some((cell) => typeof cell === "number")),
    );
    const entries = values.map((value): [string, string] => [`${section.name}/${value.name}`, value.name]);
    if (entries.length > 0) options.set(section.name, entries);
  }
  return options;
}

/** The value that `section/name` stands for. */
export function valueNamed(sections: Map<string, Section>, name: string): Value | undefined {
  const slash = name.indexOf("/");
  return sections.get(name.slice(0, slash))?.values.get(name.slice(slash + 1));
}

/** How much more or less a value became, from −1 to 1: the change as a share of the larger value. */
export function changeShare(baseline: number, candidate: number): number {
  const most = Math.max(Math.abs(baseline), Math.abs(candidate));
  return most === 0 ? 0 : (candidate - baseline) / most;
}
