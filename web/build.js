// Bundles `src` into the two files that the compiler puts into every page. `--check` only compares.
import { readFileSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";

const page = fileURLToPath(new URL("../crates/report/src/page/", import.meta.url));
const source = (name) => fileURLToPath(new URL(`src/${name}`, import.meta.url));
const options = { bundle: true, minify: true, charset: "utf8", target: "es2022", legalComments: "none", write: false };

const bundles = [
  { file: "bundle.js", entry: "main.ts", format: "iife" },
  { file: "bundle.css", entry: "style.css" },
];
let stale = false;
for (const { file, entry, format } of bundles) {
  const { outputFiles } = await build({ ...options, format, entryPoints: [source(entry)] });
  const text = outputFiles[0].text;
  if (!process.argv.includes("--check")) {
    writeFileSync(page + file, text);
    console.log(`${file}: ${text.length.toLocaleString("en")} bytes`);
  } else if (readFileSync(page + file, "utf8") !== text) {
    console.error(`crates/report/src/page/${file} is not what web/src makes: run \`cargo xtask web\``);
    stale = true;
  }
}
process.exitCode = stale ? 1 : 0;
