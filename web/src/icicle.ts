// The functions behind the reasons of a group as an icicle: a reason, and below it the functions that led there, the outermost
// first. It is a list of lists, so that it also reads as text.

import { columnOf } from "./bars";
import { numbersOf, type Report, type Row } from "./data";
import { html, note } from "./dom";
import { SIDES } from "./dots";
import { numberText } from "./format";
import { described } from "./marks";

/** A reason, or a function that was called by the one above it. */
interface Frame {
  name: string;
  amount: number;
  below: Map<string, Frame>;
}

/** Functions below a reason; of more, the innermost. */
const DEEPEST = 32;

export const hasFunctions = ({ value }: Row): boolean => (value.reason?.stack.length ?? 0) > 0;

/** The reason, and its functions from the outside in. What calls itself is one. */
function frames({ value }: Row): string[] {
  const { entry = null, stack = [] } = value.reason ?? {};
  const all = stack.filter((name, at) => name !== stack[at - 1]);
  const functions = [...all.slice(0, DEEPEST), ...(all.length > DEEPEST ? ["[more callers]"] : [])].reverse();
  return [functions.length > 0 && entry ? `${columnOf(value.name)}: ${entry}` : value.name, ...functions];
}

/** The time of a side by reason and functions. */
function read(rows: Row[], side: number): Frame {
  const whole: Frame = { name: "", amount: 0, below: new Map() };
  for (const row of rows) {
    const amount = Math.max(0, numbersOf(row)?.[side] ?? 0);
    whole.amount += amount;
    let above = whole;
    for (const name of amount > 0 ? frames(row) : []) {
      const frame = above.below.get(name) ?? { name, amount: 0, below: new Map<string, Frame>() };
      frame.amount += amount;
      above.below.set(name, frame);
      above = frame;
    }
  }
  return whole;
}

/** An icicle per side, on one scale, of the kinds of time in which functions are known. */
export function icicles(rows: Row[], report: Report): HTMLElement[] {
  const [first] = rows;
  const kinds = new Set(rows.filter(hasFunctions).map(({ value }) => columnOf(value.name)));
  const stacks = rows.filter(({ value }) => kinds.has(columnOf(value.name)));
  const sides = (first?.cells ?? []).map((_, side) => ({ ...read(stacks, side), time: read(rows, side).amount }));
  const most = Math.max(...sides.map(({ amount }) => amount));
  const list = (above: Frame, time: number, side: string | false): HTMLElement => {
    const items = [...above.below.values()].map((frame) => {
      const amount = numberText(frame.amount, report.scale(first?.value.unit ?? ""));
      const share = `share of ${first?.group.label ?? ""}: ${((frame.amount / time) * 100).toFixed(1)}%`;
      const label = html("span", { class: "heat", ...described(frame.name, `${amount}, ${share}`, side) }, frame.name);
      const color = above.name === "" && columnOf(frame.name);
      const item = html("li", { class: color }, label, frame.below.size > 0 && list(frame, time, side));
      item.style.width = `${((frame.amount / above.amount) * 100).toFixed(3)}%`;
      return item;
    });
    return html("ul", {}, ...items);
  };
  return sides.map((whole, at) => {
    const side = report.two && (SIDES[at] ?? "");
    const label = `Functions of ${first?.group.label ?? ""}${side && `, ${side}`}`;
    const drawn = html("div", { class: "marks icicle", role: "group", "aria-label": label, tabindex: 0 });
    drawn.append(list(whole, whole.time, side));
    drawn.style.width = `${((whole.amount / most) * 100).toFixed(3)}%`;
    return html("div", {}, side && note(side), drawn);
  });
}
