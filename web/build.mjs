// Builds src/report/html/page.html, the page around the data: one file with its style and script, which its
// Content-Security-Policy names by their hashes. `--check` compares it with the committed file instead.
import { createHash } from "node:crypto";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const path = (name) => fileURLToPath(new URL(name, import.meta.url));
const target = path("../src/report/html/page.html");

/** The script or style as one text. */
async function bundle(entry) {
  const { outputFiles } = await build({
    entryPoints: [path(entry)],
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    format: "iife",
    target: ["chrome123", "firefox121", "safari17.5"],
    legalComments: "none",
  });
  return outputFiles[0].text.trim();
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const [script, style] = [await bundle("src/main.ts"), await bundle("src/page.css")];
if (/<\/(script|style)|<!--/i.test(script + style)) {
  throw new Error("the script or the style would end early");
}
const parts = { script, style, "script-hash": hash(script), "style-hash": hash(style) };
const page = readFileSync(path("src/page.html"), "utf8").replace(
  /\{\{([a-z-]+)\}\}/g,
  (all, name) => parts[name] ?? all,
);

if (process.argv.includes("--check")) {
  if (readFileSync(target, "utf8") !== page) {
    console.error("src/report/html/page.html is not what web/ builds; run: npm --prefix web run build");
    process.exitCode = 1;
  }
} else {
  writeFileSync(target, page);
  console.log(`${target}: ${page.length} characters`);
}
