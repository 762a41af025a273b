// Drawings of marks: each says its numbers on hover and on focus, and arrows go from one to the next.

import { html, svg, type Child } from "./dom";

type Attributes = Parameters<typeof svg>[1];
export type Lines = (string | null | undefined | false)[];

/** What an element says beside itself: the first line is a title. */
export const says = (...lines: Lines): { "data-says": string } => ({
  "data-says": lines.filter((line) => line).join("\n"),
});

/** The attributes of an element that stands for a number, which arrows reach. */
export function described(...lines: Lines): Attributes {
  const label = lines.filter((line) => line).join(", ");
  return { ...says(...lines), role: "img", "aria-label": label, tabindex: -1 };
}

/** A part of a drawing that stands for a number. */
export const mark = (kind: "rect" | "circle", attributes: Attributes, ...lines: Lines): SVGElement =>
  svg(kind, { ...attributes, ...described(...lines) });

/** A drawing, which may be stretched unless it has circles or text. */
export function drawing(
  name: string,
  label: string,
  [width, height]: readonly [number, number],
  ...marks: Child[]
): SVGElement {
  const attributes = { class: `marks ${name}`, role: "group", "aria-label": label, tabindex: 0 };
  return svg("svg", { ...attributes, viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none" }, ...marks);
}

/** The mark that an arrow leads to: along a row, in another row the one at the same place, in a list the one around or within. */
function next(from: Element, key: string): HTMLElement | SVGElement | null | undefined {
  const [along, across] = [{ ArrowRight: 1, ArrowLeft: -1 }[key] ?? 0, { ArrowDown: 1, ArrowUp: -1 }[key] ?? 0];
  const marks = [...(from.closest(".marks")?.querySelectorAll<SVGElement>("[data-says]") ?? [])];
  const [at, row] = [marks.findIndex((one) => one === from), from.closest("g")];
  if (along !== 0) return marks[Math.max(0, at + along)];
  const item = across === 0 ? null : from.closest(".icicle li");
  if (item)
    return (across > 0 ? item.querySelector("ul") : item.parentElement?.closest("li"))?.querySelector("[data-says]");
  const rows = [...(from.closest(".marks")?.querySelectorAll("g") ?? [])];
  const place = [...(row?.children ?? [])].indexOf(from);
  const other = row && across !== 0 ? rows[rows.indexOf(row) + across]?.children[place] : null;
  return other as SVGElement | null | undefined;
}

const saying = (one: EventTarget | null) => (one instanceof Element ? one.closest("[data-says]") : null);

/** Shows what the element says that is pointed at, or else what has the focus says. */
export function listen(): void {
  const box = html("div", { class: "tooltip", role: "tooltip", hidden: true });
  document.body.append(box);
  const show = (target: EventTarget | null) => {
    const element = target && (saying(target) ?? saying(document.activeElement));
    const [title = "", ...lines] = element?.getAttribute("data-says")?.split("\n") ?? [];
    box.hidden = title === "";
    if (!element || title === "") return;
    box.replaceChildren(html("strong", {}, title), ...lines.map((line) => html("div", {}, line)));
    const [at, own] = [element.getBoundingClientRect(), box.getBoundingClientRect()];
    const most = document.documentElement.clientWidth - own.width - 4;
    box.style.left = `${Math.max(4, Math.min(at.left + at.width / 2 - own.width / 2, most))}px`;
    const isBelow = at.bottom + 6 + own.height < window.innerHeight;
    box.style.top = `${isBelow ? at.bottom + 6 : Math.max(4, at.top - own.height - 6)}px`;
  };
  for (const over of ["pointerover", "focusin"]) document.addEventListener(over, ({ target }) => show(target));
  document.addEventListener("focusout", () => show(null));
  document.addEventListener("scroll", () => show(document.activeElement), { passive: true, capture: true });
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") show(null);
    const to = event.defaultPrevented ? null : next(event.target as Element, event.key);
    to?.focus();
    if (to) event.preventDefault();
  });
}
