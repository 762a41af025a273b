// The values of runs as dots on an axis, with the bound of a gate.

import type { Dots } from "./data";
import { svg } from "./dom";
import { drawing, mark } from "./marks";

export const SIDES = ["baseline", "candidate"] as const;

const [WIDTH, ROW, EDGE] = [240, 10, 8];

/** A line of dots per side, a dot per run, on one axis from the least to the most. */
export function dots({ name, runs, bound }: Dots): SVGElement {
  const texts = new Map([...runs.flat(), ...(bound ? [bound] : [])]);
  const numbers = [...texts.keys()].filter((value) => value !== null);
  const [least, most] = [Math.min(...numbers), Math.max(...numbers)];
  const at = (value: number) => (EDGE + ((value - least) / (most - least || 1)) * (WIDTH - 2 * EDGE)).toFixed(1);
  const side = (values: Dots["runs"][number], side: number) => {
    const of = SIDES[side] ?? "";
    const dot = ([value, text]: Dots["runs"][number][number], run: number) =>
      value !== null &&
      mark(
        "circle",
        { class: of, cx: at(value), cy: 5 + side * ROW, r: 3 },
        `${name}: ${text}`,
        `${runs.length > 1 ? `${of}, ` : ""}run ${run + 1}`,
      );
    return svg("g", {}, ...values.map(dot));
  };
  const bottom = runs.length * ROW + 1;
  const tick = (value: number, anchor: string) =>
    svg("text", { x: at(value), y: bottom + 11, "text-anchor": anchor }, texts.get(value));
  const limit =
    typeof bound?.[0] === "number" &&
    mark("rect", { class: "bound", x: at(bound[0]), y: 0, width: 1.5, height: bottom }, `bound: ${bound[1]}`);
  const axis = svg("rect", { class: "axis", x: EDGE, y: bottom, width: WIDTH - 2 * EDGE, height: 1 });
  const element = drawing(
    "dots",
    `${name} of each run, ${texts.get(least)} to ${texts.get(most)}`,
    [WIDTH, bottom + 13],
    ...runs.map(side),
    axis,
    limit,
    tick(least, "start"),
    least < most && tick(most, "end"),
  );
  element.setAttribute("preserveAspectRatio", "xMinYMid meet");
  return element;
}
