// `npm ci && npm run build` writes the bundled libraries in src/torpor/explore/page, and their
// notices, anew.
import { build } from "esbuild";
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const page = fileURLToPath(new URL("../../src/torpor/explore/page/", import.meta.url));
const common = { bundle: true, minify: true, platform: "browser", legalComments: "none" };
await build({ ...common, entryPoints: ["worker.js"], format: "iife", outfile: `${page}graphviz.js` });
await build({ ...common, entryPoints: ["highlight.js"], format: "esm", outfile: `${page}highlight.js` });
await build({ ...common, entryPoints: ["diff.js"], format: "esm", outfile: `${page}diff.js` });
await build({ ...common, entryPoints: ["flamechart.js"], format: "esm", outfile: `${page}flamechart.js` });

const parts = [
  ["graphviz.js", "@hpcc-js/wasm-graphviz", [
    "It holds Graphviz (Eclipse Public License; its source: https://gitlab.com/graphviz/graphviz) and",
    "Expat (MIT license; its source: https://github.com/libexpat/libexpat), compiled to WebAssembly.",
  ]],
  ["highlight.js", "highlight.js", []],
  ["diff.js", "diff", []],
  ...["flame-chart-js", "events", "color", "color-convert", "color-name", "color-string", "is-arrayish", "simple-swizzle"]
    .map((folder) => ["flamechart.js", folder, []]),
];
const notices = parts.map(([file, folder, more]) => {
  const { name, version, license } = JSON.parse(readFileSync(`node_modules/${folder}/package.json`));
  const lines = [`${file}: ${name} ${version} (${license}), bundled and minified.`, ...more];
  const text = readFileSync(`node_modules/${folder}/LICENSE`, "utf8").trimEnd();
  return `${lines.join("\n")}\n\n${text}\n`;
});
writeFileSync(`${page}THIRD-PARTY.txt`, notices.join(`\n${"-".repeat(80)}\n\n`));
