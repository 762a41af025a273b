// The state of the page, which is in the fragment of its address: a link shows what the sender saw.

/** The defaults; keys with these values are not in the fragment. */
const DEFAULTS = {
  /** The views that are open, separated by commas. */
  view: "",
  metric: "",
  filter: "",
  /** A column of the table, with `-` before it for the smallest first. */
  sort: "",
  /** Which of the values a column is sorted by. */
  by: "change",
  open: "",
  group: "",
  section: "",
  "values-filter": "",
  "values-sort": "",
  "host-filter": "",
  "host-sort": "",
  "captures-filter": "",
  "captures-sort": "",
  /** The first and the last part of a series that is looked at. */
  period: "",
  theme: "",
};

export type Key = keyof typeof DEFAULTS;
export type Values = Record<Key, string>;

const KEYS = Object.keys(DEFAULTS) as Key[];

export class State {
  private values: Values;
  private listener: (isLink: boolean) => void = () => undefined;

  constructor() {
    this.values = this.read();
    window.addEventListener("hashchange", () => this.replace(this.read(), true));
  }

  get(key: Key): string {
    return this.values[key];
  }

  /** Sets values. Only links make entries in the browser's history. */
  set(values: Partial<Values>): void {
    const next = { ...this.values, ...values };
    const fragment = this.fragment(next);
    this.replace(next, false);
    // Browsers refuse too many at once.
    history.replaceState(null, "", fragment ? `#${fragment}` : location.pathname + location.search);
  }

  /** The fragment with other values. */
  link(values: Partial<Values>): string {
    return `#${this.fragment({ ...this.values, ...values })}`;
  }

  /** The fragment that also opens a view. */
  linkTo(view: string, values: Partial<Values> = {}): string {
    return this.link({ ...values, view: [...this.opened().filter((one) => one !== view), view].join() });
  }

  /** The names of the open views; the last one was opened last. */
  opened(): string[] {
    return this.values.view.split(",").filter((name) => name !== "");
  }

  /** Calls this after each change, and says whether a link made it. */
  onChange(listener: (isLink: boolean) => void): void {
    this.listener = listener;
  }

  private replace(next: Values, isLink: boolean): void {
    const isSame = KEYS.every((key) => next[key] === this.values[key]);
    this.values = next;
    if (!isSame) this.listener(isLink);
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
