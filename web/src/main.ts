// Reads the data, and draws the page: the answer, the overview, and below it views that open.

import type { App } from "./app";
import { cgroups, hasCgroups } from "./cgroups";
import { Report, type Document } from "./data";
import { distribution, hasRuns } from "./distribution";
import { html, select } from "./dom";
import { header } from "./header";
import { listen } from "./marks";
import { Overview } from "./overview";
import { hasReasons, ofPeriod, remark, type Follows } from "./period";
import { OF_CAPTURES, OF_HOST, RowsView } from "./rows";
import { State, type Key } from "./state";
import { TimeView } from "./time";
import { hasWhy, why } from "./why";

interface View {
  name: string;
  about: string;
  draw: (app: App) => Drawn;
  /** What it shows of a selected period. */
  follows?: Follows;
  /** What it is refreshed for. */
  keys?: Key[];
}

/** What is on the page, and how it follows the state. */
interface Drawn {
  element: HTMLElement;
  refresh?: () => void;
}

const drawn = (view: { draw: () => HTMLElement; refresh: () => void }): Drawn => ({
  element: view.draw(),
  refresh: view.refresh.bind(view),
});

/** The views below the overview that have content. */
function views(app: App): View[] {
  const { report } = app;
  const { trends } = report.document;
  const rows = (name: "Values" | "Host" | "Captures", about: string, sections?: string[]): View | false => {
    const view = name.toLowerCase() as "values" | "host" | "captures";
    const of = (one: App) => new RowsView(one, view, sections);
    const keys: Key[] = [`${view}-filter`, `${view}-sort`, "group", "section"];
    const follows = name === "Values" && { follows: "period" as const };
    return of(app).hasContent && { name, about, draw: (one) => drawn(of(one)), keys, ...follows };
  };
  const list = [
    trends && {
      name: "Time",
      about: "what groups did in each part of the recording; select a period for all views",
      draw: () => drawn(new TimeView(app, trends)),
      keys: ["metric", "period"] as Key[],
    },
    hasWhy(report) && {
      name: "Why",
      about: "all reasons of waits and sleep, and who ran meanwhile",
      draw: (of: App) => ({ element: why(of) }),
      follows: hasReasons(app) ? ("period" as const) : ("whole" as const),
    },
    hasRuns(report) && {
      name: "Distribution",
      about: "the value of each run, and the bounds of gates",
      draw: () => ({ element: distribution(app) }),
    },
    hasCgroups(report) && {
      name: "cgroups",
      about: "CPU time, throttling, memory against its limit, pressure",
      draw: () => ({ element: cgroups(app) }),
      follows: "whole" as const,
    },
    rows("Values", "all metrics of all groups"),
    rows("Host", "settings and pressure", OF_HOST),
    rows("Captures", "how this was recorded, and what is missing", OF_CAPTURES),
  ];
  return list.filter((view) => view !== null && view !== false);
}

/** The overview, which is never folded. */
const OVERVIEW: View = {
  name: "Overview",
  about: "",
  draw: (of) => (of.report.overview ? drawn(new Overview(of, of.report.overview)) : { element: html("div") }),
  follows: "period",
  keys: ["filter", "sort", "by", "open"],
};

/** A view in its place on the page. */
class Place {
  readonly content = html("div");
  private refresh: (() => void) | undefined;
  private before: string[] | null = null;

  constructor(
    private readonly app: App,
    private readonly view: View,
  ) {}

  /** Draws what changed. */
  update(): void {
    const { keys = [], follows, draw } = this.view;
    const values = (of: Key[]) => of.map((key) => this.app.state.get(key)).join("\0");
    const [whole, part] = [values(follows ? ["period"] : []), values(keys)];
    if (this.before?.[0] !== whole) {
      const { element, refresh } = draw(follows === "period" ? ofPeriod(this.app) : this.app);
      const line = follows && remark(this.app, follows);
      this.refresh = refresh;
      this.content.replaceChildren(line ?? "", element);
    } else if (this.before[1] !== part) this.refresh?.();
    this.before = [whole, part];
  }
}

/** A view that is folded until it is opened. */
class Fold {
  readonly element = html("details");
  readonly key: string;
  private readonly place: Place;

  constructor(
    private readonly app: App,
    view: View,
  ) {
    this.key = view.name.toLowerCase();
    this.element.id = this.key;
    this.place = new Place(app, view);
    const about = html("span", { class: "note" }, view.about);
    this.element.append(html("summary", {}, html("h2", {}, view.name), " ", about), this.place.content);
    this.element.addEventListener("toggle", () => {
      const { state } = this.app;
      const opened = state.opened();
      const { open } = this.element;
      if (this.element.dataset.printed !== undefined || opened.includes(this.key) === open) return;
      state.set({ view: [...opened.filter((name) => name !== this.key), ...(open ? [this.key] : [])].join() });
    });
  }

  update(isOpen: boolean): void {
    this.element.open = isOpen;
    if (isOpen) this.place.update();
  }

  /** On paper, all views are open, but not all values. */
  print(isPrinted: boolean): void {
    const isOther = this.key !== "values" && !this.element.open;
    if (isPrinted ? !isOther : this.element.dataset.printed === undefined) return;
    if (isPrinted) this.element.dataset.printed = "";
    this.update(isPrinted);
    if (!isPrinted) setTimeout(() => delete this.element.dataset.printed);
  }
}

const KEYS =
  "Keys: / to filter, arrows in rows and charts. The address of this page keeps what you chose. 100% is one CPU.";

function start(): void {
  const data = JSON.parse(document.getElementById("data")?.textContent ?? "") as Document;
  const app: App = { report: new Report(data), state: new State() };
  const { state } = app;
  document.title = `${app.report.document.title} · ctprof`;
  const folds = views(app).map((view) => new Fold(app, view));
  const overview = new Place(app, OVERVIEW);
  const update = (isLink: boolean) => {
    const theme = state.get("theme");
    document.documentElement.dataset.theme = ["light", "dark"].includes(theme) ? theme : "";
    const opened = state.opened();
    const first = app.report.overview || opened.length > 0 ? null : folds[0];
    overview.update();
    for (const fold of folds) fold.update(fold === first || opened.includes(fold.key));
    if (isLink) folds.find(({ key }) => key === opened.at(-1))?.element.scrollIntoView();
  };
  const themes = ["system", "light", "dark"].map((name): [string, string] => [name === "system" ? "" : name, name]);
  const theme = select("Theme", themes, state.get("theme"), (name) => state.set({ theme: name }));
  const views_ = html("div", { class: "folds" }, ...folds.map(({ element }) => element));
  const footer = html("footer", {}, theme, html("span", { class: "note" }, KEYS));
  document.body.prepend(header(app), html("main", {}, overview.content, views_), footer);
  document.body.addEventListener("keydown", (event) => {
    const target = event.target as HTMLElement;
    if (event.key !== "/" || target.matches("input, select, textarea")) return;
    const nearest = target.closest("details")?.querySelector<HTMLElement>("input[type=search]");
    (nearest ?? document.querySelector<HTMLElement>("input[type=search]"))?.focus();
    event.preventDefault();
  });
  state.onChange(update);
  listen();
  update(state.opened().length > 0);
  const print = (isPrinted: boolean) => () => folds.forEach((fold) => fold.print(isPrinted));
  window.addEventListener("beforeprint", print(true));
  window.addEventListener("afterprint", print(false));
}

start();
