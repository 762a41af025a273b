// A table whose columns may sort it, and that can be copied.

import { copiers } from "./copy";
import { html, type Child } from "./dom";
import { orderOf, sortedBy, sortingHead, type Sorting } from "./sorting";

export interface Column<T> {
  key: string;
  text: string;
  /** What the heading says beside itself. */
  doc?: string;
  cell: (item: T) => Child;
  /** The text of a cell in copies, if it is not that of the page; `null` if copies lack the column. */
  copy?: ((item: T) => string) | null;
  kind?: "number" | "name" | "bar";
  /** What the column is sorted by. */
  order?: (item: T) => number | string | null;
}

/** Rows that are drawn before a click on "more". */
const ROWS_BEFORE_MORE = 200;

/** A table of items. The name tells it from others. */
export function table<T>(
  label: string,
  columns: Column<T>[],
  items: T[],
  sorting?: Sorting,
  drawn = ROWS_BEFORE_MORE,
): HTMLElement {
  const order = sorting ? orderOf(sorting) : null;
  const keyOf = columns.find((column) => column.key === order?.key)?.order;
  const list = order && keyOf ? sortedBy(items, order.reverse, keyOf) : items;
  const head = (column: Column<T>) =>
    sorting && column.order
      ? sortingHead(sorting, column)
      : html("th", { scope: "col", class: column.kind, "data-says": column.doc }, column.text);
  const cell = (item: T) => (column: Column<T>, at: number) =>
    html(at === 0 ? "th" : "td", { scope: at === 0 && "row", class: column.kind }, column.cell(item));
  const row = (item: T) => html("tr", {}, ...columns.map(cell(item)));
  const body = html("tbody", {}, ...list.slice(0, drawn).map(row));
  const whole = html("table", { class: "plain" }, html("thead", {}, html("tr", {}, ...columns.map(head))), body);
  const scroll = html("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": label }, whole);
  const rest = list.slice(drawn);
  const click = (event: Event) => {
    body.append(...rest.map(row));
    (event.currentTarget as Element).remove();
  };
  const more = html("button", { type: "button", click }, `Show ${rest.length.toLocaleString("en")} more`);
  const copied = columns.filter(({ copy }) => copy !== null);
  const text = (item: T) => (column: Column<T>) => column.copy?.(item) ?? html("td", {}, column.cell(item)).textContent;
  const rows = () => [copied.map((column) => column.text), ...list.map((item) => copied.map(text(item)))];
  return html("div", {}, scroll, html("div", { class: "rest" }, rest.length > 0 && more, ...copiers(rows)));
}
