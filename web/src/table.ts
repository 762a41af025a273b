// A table whose columns may sort it.

import { html, type Child } from "./dom";
import { orderOf, sortedBy, sortingHead } from "./sorting";
import type { State } from "./state";

export interface Column<T> {
  key: string;
  text: string;
  cell: (item: T) => Child;
  kind?: "number" | "name";
  /** What the column is sorted by. */
  order?: (item: T) => number | string | null;
}

/** Rows that are drawn before a click on "more". */
const AT_ONCE = 200;

/** A table of items; `state` if its columns sort. */
export function table<T>(label: string, columns: Column<T>[], items: T[], state?: State, drawn = AT_ONCE): HTMLElement {
  const order = state ? orderOf(state) : null;
  const keyOf = columns.find((column) => column.key === order?.key)?.order;
  const list = order && keyOf ? sortedBy(items, order.reverse, keyOf) : items;
  const head = (column: Column<T>) =>
    state && column.order ? sortingHead(state, column) : html("th", { scope: "col", class: column.kind }, column.text);
  const cell = (item: T) => (column: Column<T>, at: number) =>
    html(at === 0 ? "th" : "td", { scope: at === 0 && "row", class: column.kind }, column.cell(item));
  const row = (item: T) => html("tr", {}, ...columns.map(cell(item)));
  const body = html("tbody", {}, ...list.slice(0, drawn).map(row));
  const whole = html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...columns.map(head))), body);
  const scroll = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, whole);
  const rest = list.slice(drawn);
  if (rest.length === 0) return scroll;
  const click = (event: Event) => {
    body.append(...rest.map(row));
    (event.currentTarget as Element).remove();
  };
  const more = html("button", { type: "button", click }, `Show ${rest.length.toLocaleString("en")} more`);
  return html("div", {}, scroll, html("div", { class: "rest" }, more));
}
