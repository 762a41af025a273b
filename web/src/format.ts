// Texts of what only the page computes, such as averages over a selected period. All other numbers come with their texts.

import type { Scale } from "./data";

/** A number in the step that suits it, with three digits. */
export function numberText(number: number, { steps, decimal }: Scale): string {
  const digits = (step: number) => {
    const value = number / (steps[step]?.[0] ?? 1);
    if (step > 0 && value < 999.5) return value.toPrecision(3);
    return value.toFixed(decimal && step === 0 && value > 0 && value < 9.95 ? 1 : 0);
  };
  // Rounding can carry into the next step: 999.6 is 1.00K.
  const carries = ([size]: [number, string], step: number) =>
    step === 0 || number >= size || Number(digits(step - 1)) * (steps[step - 1]?.[0] ?? 1) >= size;
  const step = Math.max(0, steps.findLastIndex(carries));
  return `${digits(step)}${steps[step]?.[1] ?? ""}`;
}

/** The unit after a heading: what values are divided by, which they do not say themselves. */
export const headingOf = (name: string, unit: string): string => name + (/\/.*/.exec(unit)?.[0] ?? "");

/** A count with its noun: `1 group`, `2 groups`. */
export const counted = (count: number, noun: string): string =>
  `${count.toLocaleString("en")} ${noun}${count === 1 ? "" : "s"}`;
