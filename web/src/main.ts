// Reads the data, and draws the view that the fragment of the address names.

import type { App } from "./app";
import { cgroups, hasCgroups } from "./cgroups";
import { Report, type Document } from "./data";
import { button, html, select, Tooltip } from "./dom";
import { header } from "./header";
import { Overview } from "./overview";
import { hasReasons, ofPeriod, remark, type Follows } from "./period";
import { OF_CAPTURES, OF_HOST, RowsView } from "./rows";
import { State, type Change } from "./state";
import { noSteps, TimeView } from "./time";
import { hasWhy, why } from "./why";

interface View {
  name: string;
  /** Whether the report has something to show there. */
  hasContent: boolean;
  draw: () => Drawn;
}

/** What is on the page, and how it follows the state. */
interface Drawn {
  element: HTMLElement;
  refresh?: () => void;
}

function views(app: App): View[] {
  const { report } = app;
  const { course } = report.document;
  const none = "The report has no overview: --sections leaves it out.";
  const drawn = (view: { draw: () => HTMLElement; refresh: () => void }): Drawn => ({
    element: view.draw(),
    refresh: view.refresh.bind(view),
  });
  const overview = (of: App): Drawn => {
    const section = of.report.overview;
    return section ? drawn(new Overview(of, section)) : { element: html("p", {}, none) };
  };
  const time = () => (course ? drawn(new TimeView(app, course)) : { element: noSteps() });
  const view = (name: string, hasContent: boolean, draw: (of: App) => Drawn, follows?: Follows): View => ({
    name,
    hasContent,
    draw: () => (follows ? following(app, draw, follows) : draw(app)),
  });
  const rows = (name: string, follows?: Follows, sections?: string[]) => {
    const all = new RowsView(app, sections);
    return view(name, all.hasContent, () => drawn(new RowsView(app, sections)), follows);
  };
  return [
    view("Overview", report.overview !== undefined, overview, "period"),
    view("Time", course !== null, time),
    view("Why", hasWhy(report), (of) => ({ element: why(of) }), hasReasons(app) ? "period" : "whole"),
    view("cgroups", hasCgroups(report), () => ({ element: cgroups(app) }), "whole"),
    rows("Values", "whole"),
    rows("Host", undefined, OF_HOST),
    rows("Captures", undefined, OF_CAPTURES),
  ];
}

/** A view, below a line that says of which time it is. */
function following(app: App, draw: (of: App) => Drawn, follows: Follows): Drawn {
  const drawn = draw(follows === "period" ? ofPeriod(app) : app);
  const line = remark(app, follows);
  return line ? { ...drawn, element: html("div", {}, line, drawn.element) } : drawn;
}

/** The tabs and the view that is shown. */
class Page {
  readonly tabs: HTMLElement[];
  readonly panel = html("div", { id: "panel", role: "tabpanel", tabindex: -1 });
  private drawn: Drawn | null = null;

  constructor(
    private readonly state: State,
    private readonly views: View[],
  ) {
    this.tabs = views.map(({ name }) => {
      const tab = button(name, () => {
        state.set({ view: name.toLowerCase(), sort: "", group: "", section: "" });
      });
      tab.id = `tab-${name}`;
      tab.setAttribute("role", "tab");
      tab.setAttribute("aria-controls", this.panel.id);
      return tab;
    });
  }

  get current(): number {
    const named = this.views.findIndex(({ name }) => name.toLowerCase() === this.state.get("view"));
    const first = this.views.findIndex(({ hasContent }) => hasContent);
    return named >= 0 ? named : Math.max(0, first);
  }

  draw(change: Change): void {
    const theme = this.state.get("theme");
    document.documentElement.dataset.theme = ["light", "dark"].includes(theme) ? theme : "";
    if (change === "part") {
      this.drawn?.refresh?.();
      return;
    }
    this.tabs.forEach((tab, at) => {
      tab.setAttribute("aria-selected", String(at === this.current));
      tab.setAttribute("tabindex", at === this.current ? "0" : "-1");
      // A link can name a view that says why it is empty.
      tab.hidden = at !== this.current && this.views[at]?.hasContent === false;
    });
    this.panel.setAttribute("aria-labelledby", this.tabs[this.current]?.id ?? "");
    this.drawn = this.views[this.current]?.draw() ?? null;
    this.panel.replaceChildren(this.drawn?.element ?? "");
  }

  /** On paper, the other views follow the one that is shown, but not all values. */
  print(): void {
    const rest = html("div");
    window.addEventListener("beforeprint", () => {
      const isOther = ({ name, hasContent }: View, at: number) =>
        hasContent && name !== "Values" && at !== this.current;
      const others = this.views.filter(isOther);
      const section = ({ name, draw }: View) => html("section", {}, html("h2", {}, name), draw().element);
      rest.replaceChildren(...others.map(section));
      this.panel.after(rest);
    });
    window.addEventListener("afterprint", () => {
      rest.remove();
    });
  }

  /** `/` goes to the filter; arrows on the tabs go to the next view. */
  key(event: KeyboardEvent): void {
    const target = event.target as HTMLElement;
    const tabs = this.tabs.filter(({ hidden }) => !hidden);
    const at = tabs.indexOf(target);
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === "/" && !target.matches("input, select")) {
      this.panel.querySelector<HTMLElement>("input[type=search]")?.focus();
    } else if (at >= 0 && step) {
      const next = tabs[(at + step + tabs.length) % tabs.length];
      next?.click();
      next?.focus();
    } else return;
    event.preventDefault();
  }
}

const KEYS = "Keys: / to filter, arrows on tabs, rows and charts. The address of this page keeps what you chose.";

function start(): void {
  const data = JSON.parse(document.getElementById("data")?.textContent ?? "") as Document;
  const app: App = { report: new Report(data), state: new State(), tooltip: new Tooltip() };
  const { state } = app;
  document.title = `${app.report.document.title} · ctprof`;
  const page = new Page(state, views(app));
  const themes: [string, string][] = [
    ["", "system"],
    ["light", "light"],
    ["dark", "dark"],
  ];
  const theme = select("Theme", themes, state.get("theme"), (name) => {
    state.set({ theme: name });
  });
  const list = html("div", { role: "tablist", "aria-label": "Views" }, ...page.tabs);
  const footer = html("footer", {}, theme, html("span", { class: "note" }, KEYS));
  document.body.prepend(header(app), html("nav", { class: "tabs" }, list), html("main", {}, page.panel), footer);
  document.body.addEventListener("keydown", (event) => {
    page.key(event);
  });
  state.onChange((change) => {
    page.draw(change);
  });
  page.draw("whole");
  page.print();
  let width = window.innerWidth;
  window.addEventListener("resize", () => {
    if (width !== window.innerWidth) page.draw("part");
    width = window.innerWidth;
  });
}

start();
