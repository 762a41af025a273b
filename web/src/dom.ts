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
export function visible(text: string): string {
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
  const change = (event: Event) => choose((event.currentTarget as HTMLSelectElement).value);
  return html("label", {}, label, " ", html("select", { change }, ...options.map(option)));
}

/** What is folded below a line. */
export const folded = (line: Child, ...content: Child[]): HTMLDetailsElement =>
  html("details", {}, html("summary", {}, line), ...content);

/** A remark below a heading or a table. */
export const note = (text: string): HTMLElement => html("p", { class: "note" }, text);

export const button = (text: string, click: () => void): HTMLButtonElement =>
  html("button", { type: "button", click }, text);

/** A field for the text that names must contain. */
export function filterInput(placeholder: string, value: string, choose: (text: string) => void): HTMLElement {
  const input = (event: Event) => choose((event.currentTarget as HTMLInputElement).value);
  return html("label", {}, "Filter ", html("input", { type: "search", value, placeholder, input }));
}

/** The meaning of colors: class and text. */
export function legend(colors: [string, string][]): HTMLElement {
  const entry = ([name, text]: [string, string]) => html("li", {}, html("span", { class: `swatch ${name}` }), text);
  return html("ul", { class: "legend", "aria-label": "Colors" }, ...colors.map(entry));
}
