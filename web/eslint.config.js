import js from "@eslint/js";
import ts from "typescript-eslint";

/** Names from snapshots must never become markup. */
const MARKUP = ["innerHTML", "outerHTML", "insertAdjacentHTML", "write", "writeln", "srcdoc"];

export default ts.config(
  { ignores: ["node_modules"] },
  js.configs.recommended,
  { files: ["*.mjs"], languageOptions: { globals: { process: "readonly", console: "readonly", URL: "readonly" } } },
  {
    files: ["src/**/*.ts"],
    extends: [ts.configs.strictTypeChecked, ts.configs.stylisticTypeChecked],
    languageOptions: { parserOptions: { projectService: true } },
    rules: {
      "no-restricted-properties": ["error", ...MARKUP.map((property) => ({ property }))],
      "no-restricted-globals": ["error", "fetch", "XMLHttpRequest", "WebSocket", "eval"],
      "@typescript-eslint/restrict-template-expressions": ["error", { allowNumber: true }],
      "@typescript-eslint/no-confusing-void-expression": ["error", { ignoreArrowShorthand: true }],
    },
  },
);
