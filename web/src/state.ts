// The state of the page, which is in the fragment of its address: a link shows what the sender saw.

/** The defaults; keys with these values are not in the fragment. */
const DEFAULTS = {
  /** The first view with content, if it is empty. */
  view: "",
  metric: "",
  filter: "",
  /** A column of the table, with `-` before it for the smallest first. */
  sort: "",
  /** Which of the values a column is sorted by. */
  by: "change",
  bars: "scale",
  open: "",
  group: "",
  section: "",
  /** The first and the last part of a series that is looked at. */
  period: "",
  theme: "",
};

export type Key = keyof typeof DEFAULTS;
export type Values = Record<Key, string>;

const KEYS = Object.keys(DEFAULTS) as Key[];

/** What has to be drawn again: all, or what a control of the view changed. */
export type Change = "whole" | "part";

export class State {
  private values: Values;
  private listener: (change: Change) => void = () => undefined;

  constructor() {
    this.values = this.read();
    window.addEventListener("hashchange", () => {
      this.replace(this.read(), "whole");
    });
  }

  get(key: Key): string {
    return this.values[key];
  }

  /** Sets values; the browser's history gets an entry for another view. */
  set(values: Partial<Values>): void {
    const next = { ...this.values, ...values };
    const fragment = this.fragment(next);
    const address = fragment ? `#${fragment}` : location.pathname + location.search;
    if (next.view !== this.values.view) history.pushState(null, "", address);
    else history.replaceState(null, "", address);
    this.replace(next, next.view === this.values.view ? "part" : "whole");
  }

  /** The fragment with other values. */
  link(values: Partial<Values>): string {
    return `#${this.fragment({ ...this.values, ...values })}`;
  }

  onChange(listener: (change: Change) => void): void {
    this.listener = listener;
  }

  private replace(next: Values, change: Change): void {
    const isSame = KEYS.every((key) => next[key] === this.values[key]);
    this.values = next;
    if (!isSame) this.listener(change);
  }

  private read(): Values {
    const given = new URLSearchParams(location.hash.slice(1));
    const entries = KEYS.map((key) => [key, given.get(key) ?? DEFAULTS[key]]);
    return Object.fromEntries(entries) as Values;
  }

  private fragment(values: Values): string {
    const given = KEYS.filter((key) => values[key] !== DEFAULTS[key]);
    return new URLSearchParams(given.map((key) => [key, values[key]])).toString();
  }
}
