// The trends of a series: what groups did in each of its parts, and a period that is selected from them.

import type { Trends, Scale } from "./data";

/** The first and the last part of a period. */
export type Period = readonly [number, number];

/** All parts, or the period in the fragment, which anyone may have written. */
export function periodOf({ duration_ns }: Trends, text: string): Period {
  const last = duration_ns.length - 1;
  const [from = NaN, to = NaN] = text.split("..").map(Number);
  const isPart = Number.isInteger(from) && Number.isInteger(to) && 0 <= from && from <= to && to <= last;
  return isPart ? [from, to] : [0, last];
}

export const isWhole = ({ duration_ns }: Trends, [from, to]: Period): boolean =>
  from === 0 && to === duration_ns.length - 1;

/** When a part begins, in nanoseconds since the start. */
export const startOf = ({ started_at_unix_ns: starts }: Trends, part: number): number =>
  (starts[part] ?? 0) - (starts[0] ?? 0);

/** When a part ends, in nanoseconds since the start. */
export const endOf = (trends: Trends, part: number): number => startOf(trends, part) + (trends.duration_ns[part] ?? 0);

/** Both edges of a part, as shares of the whole time. */
export function edges(trends: Trends, part: number): [number, number] {
  const whole = endOf(trends, trends.duration_ns.length - 1) || 1;
  return [startOf(trends, part) / whole, endOf(trends, part) / whole];
}

/** The part at a share of the whole time. */
export function partAt(trends: Trends, share: number): number {
  const ends = trends.duration_ns.map((_, part) => edges(trends, part)[1]);
  const found = ends.findIndex((end) => share < end);
  return found < 0 ? ends.length - 1 : found;
}

/** The average of the rates in a period that are known; null if none is. */
export function average(trends: Trends, values: (number | null)[], [from, to]: Period): number | null {
  let [sum, time] = [0, 0];
  for (let part = from; part <= to; part += 1) {
    const [duration, value] = [trends.duration_ns[part] ?? 0, values[part] ?? null];
    sum += (value ?? 0) * duration;
    time += value === null ? 0 : duration;
  }
  return time > 0 ? sum / time : null;
}

/** A time since the start as `show` reads it: `1.25s`, `12m3s`. */
export function sinceText(ns: number): string {
  const seconds = ns / 1e9;
  const [hours, minutes] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60];
  const rest = `${Number((seconds % 60).toFixed(2))}s`;
  return `${hours > 0 ? `${hours}h` : ""}${hours > 0 || minutes > 0 ? `${minutes}m` : ""}${rest}`;
}

/** The name of a period of a series, which commands take. In a part of a series, times since its start would be wrong. */
export function partOf(trends: Trends, file: string, [from, to]: Period): string {
  const path = file.replace(/@[^@/]*\.\.[^@/]*$/, "");
  const time = (ns: number) =>
    path === file ? sinceText(ns) : new Date(((trends.started_at_unix_ns[0] ?? 0) + ns) / 1e6).toISOString();
  const part = `${path}@${time(startOf(trends, from))}..${time(endOf(trends, to))}`;
  return /^[\w@%+=:,./-]+$/.test(part) ? part : `'${part.replaceAll("'", "'\\''")}'`;
}

const STEPS = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800];

/** Round times since the start, in nanoseconds, at most about nine. */
export function timeTicks(trends: Trends): number[] {
  const whole = endOf(trends, trends.duration_ns.length - 1);
  const step = (STEPS.find((seconds) => seconds * 9e9 >= whole) ?? 86400) * 1e9;
  return Array.from({ length: Math.floor(whole / step) + 1 }, (_, at) => at * step);
}

/** Round numbers from 0 to a maximum, about four; of bytes, multiples of their largest unit. */
export function ticks(most: number, { steps }: Scale): number[] {
  const unit = steps.findLast(([size]) => size <= most)?.[0] ?? 1;
  const power = unit * 10 ** Math.floor(Math.log10(most / unit / 4));
  const step = power * ([1, 2, 5].find((factor) => factor * power * 4 >= most) ?? 10);
  return Array.from({ length: Math.floor((most / step) * 1.0001) + 1 }, (_, at) => at * step);
}

/** A chart ends at what all CPUs can do, or at a little above all but a twentieth of the sums if others are far higher. */
export function topOf(sums: number[], capacity: number | null): number {
  const sorted = [...sums].sort((a, b) => a - b);
  const [most = 0, percentile95 = 0] = [sorted.at(-1), sorted[Math.floor(sorted.length * 0.95) - 1]];
  return (capacity ?? (percentile95 > 0 && most > 4 * percentile95 ? percentile95 * 1.25 : most)) || 1;
}
