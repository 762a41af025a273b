// What every view has at hand.

import type { Group, Report } from "./data";
import type { State } from "./state";

export interface App {
  report: Report;
  state: State;
}

/** The address of all values of a group. */
export const valuesOf = (state: State, group: Group): string =>
  state.linkTo("values", { group: group.key, section: "", "values-sort": "", "values-filter": "" });

/** The parts of a group's time, in the order of its bar. */
export const TIMES = ["run", "wait", "block", "sleep"] as const;
