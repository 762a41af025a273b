// Tables as text for the clipboard.

import { button, html, visible } from "./dom";

/** A name after `@` would notify a user of GitHub: an empty comment parts them, which no script may spell. */
const AT = ["@<", "!-- -->"].join("");

const inMarkdown = (text: string) =>
  visible(text)
    .replace(/[|\\`*_<>[\]#&]/g, "\\$&")
    .replaceAll("@", AT);

export function markdown([heads = [], ...rows]: string[][]): string {
  const line = (cells: string[]) => `| ${cells.join(" | ")} |\n`;
  return [heads, ...rows].map((row, at) => line(row.map(inMarkdown)) + (at ? "" : line(row.map(() => "---")))).join("");
}

/** No spreadsheet takes a cell for a formula, as in src/report/csv.rs. */
function inCsv(text: string): string {
  const isFormula = /^[=+\-@＝＋－＠\t\r]/.test(text) && !Number.isFinite(Number(text));
  const cell = `${isFormula ? "'" : ""}${visible(text)}`;
  return /[",\r\n]/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

export const csv = (rows: string[][]): string => rows.map((row) => `${row.map(inCsv).join(",")}\r\n`).join("");

/** A button that copies a text, and says so. Where the browser refuses, the text is there to be copied by hand. */
export function copier(label: string, text: () => string): HTMLElement {
  const said = html("span", { class: "note", role: "status" });
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text());
      said.replaceChildren(" copied");
    } catch {
      const area = html("textarea", { readonly: true, "aria-label": label }, text());
      said.replaceChildren(area);
      area.select();
    }
  };
  return html(
    "span",
    { class: "copy" },
    button(label, () => void copy()),
    said,
  );
}

/** Buttons that copy a table, whose first row has the headings. */
export const copiers = (rows: () => string[][]): HTMLElement[] => [
  copier("Copy as Markdown", () => markdown(rows())),
  copier("Copy as CSV", () => csv(rows())),
];
