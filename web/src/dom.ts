// Elements. All text goes through text nodes, so that no name is ever markup.

export type Child = Node | string | number | null | undefined | false;
type Attributes = Record<string, string | number | boolean | null | undefined | ((event: Event) => void)>;

const SVG = "http://www.w3.org/2000/svg";

function fill(element: Element, attributes: Attributes, children: Child[]): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (typeof value === "function") element.addEventListener(name, value);
    else if (value === true) element.setAttribute(name, "");
    else if (value !== null && value !== undefined && value !== false) element.setAttribute(name, String(value));
  }
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "object" ? child : visible(String(child)));
  }
}

export function html<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[K] {
  const element = document.createElement(tag);
  fill(element, attributes, children);
  return element;
}

export function svg<K extends keyof SVGElementTagNameMap>(
  tag: K,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[K] {
  const element = document.createElementNS(SVG, tag);
  fill(element, attributes, children);
  return element;
}

const ESCAPES: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };

/** Text from a snapshot with control and bidirectional characters escaped, as in src/report/escape.rs. */
function visible(text: string): string {
  const steering = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
  return text.replace(steering, (one) => ESCAPES[one] ?? `\\u{${(one.codePointAt(0) ?? 0).toString(16)}}`);
}

/** A selection with a visible label. */
export function select(
  label: string,
  options: [string, string][],
  value: string,
  choose: (value: string) => void,
): HTMLElement {
  const option = ([key, text]: [string, string]) => html("option", { value: key, selected: key === value }, text);
  const chosen = (event: Event) => {
    choose((event.currentTarget as HTMLSelectElement).value);
  };
  return html("label", {}, label, " ", html("select", { change: chosen }, ...options.map(option)));
}

export function button(text: string, click: () => void): HTMLButtonElement {
  return html("button", { type: "button", click }, text);
}

/** A field for the text that names must contain. */
export function filterInput(placeholder: string, value: string, choose: (text: string) => void): HTMLElement {
  const input = (event: Event) => {
    choose((event.currentTarget as HTMLInputElement).value);
  };
  return html("label", {}, "Filter ", html("input", { type: "search", value, placeholder, input }));
}

/** The meaning of colors: class and text. */
export function legend(colors: [string, string][]): HTMLElement {
  const entry = ([name, text]: [string, string]) => html("li", {}, html("span", { class: `swatch ${name}` }), text);
  return html("ul", { class: "legend", "aria-label": "Colors" }, ...colors.map(entry));
}

/** A text beside the pointer or the focus that tells more about an element. */
export class Tooltip {
  private readonly box = html("div", { class: "tooltip", role: "tooltip", id: "tooltip", hidden: true });

  constructor() {
    document.body.append(this.box);
    document.addEventListener("keydown", (event) => {
      if (event.key === "Escape") this.hide();
    });
    document.addEventListener(
      "scroll",
      () => {
        this.hide();
      },
      { passive: true, capture: true },
    );
  }

  /** Shows lines over elements of a container that a selector matches. */
  delegate(container: Element, selector: string, lines: (element: Element) => string[]): void {
    for (const over of ["pointerover", "focusin"])
      container.addEventListener(over, (event) => {
        const element = (event.target as Element).closest(selector);
        const texts = element ? lines(element) : [];
        if (element && texts.length > 0) this.show(element, texts);
        else this.hide();
      });
    for (const out of ["pointerleave", "focusout"])
      container.addEventListener(out, () => {
        this.hide();
      });
  }

  private show(element: Element, [title = "", ...lines]: string[]): void {
    this.box.replaceChildren(html("strong", {}, title), ...lines.map((line) => html("div", {}, line)));
    this.box.hidden = false;
    const [at, own] = [element.getBoundingClientRect(), this.box.getBoundingClientRect()];
    const left = Math.min(
      Math.max(4, at.left + at.width / 2 - own.width / 2),
      document.documentElement.clientWidth - own.width - 4,
    );
    const below = at.bottom + 6 + own.height < window.innerHeight;
    this.box.style.left = `${Math.max(4, left)}px`;
    this.box.style.top = `${below ? at.bottom + 6 : Math.max(4, at.top - own.height - 6)}px`;
  }

  private hide(): void {
    this.box.hidden = true;
  }
}
