// The order of rows. The fragment has a column's key, with `-` before it for the reverse of its usual order: names from
// A on, numbers from the largest on.

import { html } from "./dom";
import type { Key, State } from "./state";
import type { Column } from "./table";

type Ordered = number | string | null;

/** The value of the state that orders a table. */
export interface Sorting {
  state: State;
  key: Key;
}

export interface Order {
  key: string;
  reverse: boolean;
}

export function orderOf({ state, key }: Sorting): Order | null {
  const sort = state.get(key);
  return sort ? { key: sort.replace(/^-/, ""), reverse: sort.startsWith("-") } : null;
}

/** Items by their keys; those without come last. */
export function sortedBy<T>(items: T[], reverse: boolean, keyOf: (item: T) => Ordered): T[] {
  const keyed = items.map((item) => ({ item, key: keyOf(item) }));
  const sign = reverse ? -1 : 1;
  keyed.sort(({ key: a }, { key: b }) => {
    if (a === null || b === null) return Number(a === null) - Number(b === null);
    return sign * (typeof a === "number" && typeof b === "number" ? b - a : String(a).localeCompare(String(b)));
  });
  return keyed.map(({ item }) => item);
}

type Head = Pick<Column<never>, "key" | "text" | "doc" | "kind">;

/** The heading of a column that sorts: in its usual order, then in reverse, then as before. */
export function sortingHead(sorting: Sorting, { key, text, doc, kind }: Head): HTMLElement {
  const order = orderOf(sorting);
  const isSorted = order?.key === key;
  const isAscending = isSorted && order.reverse !== (kind === "name");
  const next = !isSorted ? key : order.reverse ? "" : `-${key}`;
  const mark = !isSorted ? "" : isAscending ? " ▲" : " ▼";
  const sort = () => sorting.state.set({ [sorting.key]: next });
  const direction = isSorted && (isAscending ? "ascending" : "descending");
  const attributes = { type: "button", click: sort, "data-says": doc && `${text}\n${doc}` };
  const sorter = html("button", attributes, text, html("span", { "aria-hidden": "true" }, mark));
  return html("th", { scope: "col", class: kind, "aria-sort": direction, "data-sort": key }, sorter);
}
