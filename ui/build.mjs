// Builds the page into the package: operator/streamjob/cli/ui/page.
import { cpSync, mkdirSync, rmSync, writeFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { build } from "esbuild";
import { licenses } from "./licenses.mjs";

const here = (path) => fileURLToPath(new URL(path, import.meta.url));
const page = here("../operator/streamjob/cli/ui/page/");

await import("./types.mjs");
rmSync(page, { recursive: true, force: true });
mkdirSync(page, { recursive: true });
await build({
  entryPoints: { app: here("src/main.tsx") },
  outdir: page,
  bundle: true,
  minify: true,
  format: "esm",
  target: "es2022",
  jsx: "automatic",
  jsxImportSource: "preact",
  legalComments: "none",
  absWorkingDir: here("."), // so that the output is the same wherever it is built
  logLevel: "warning",
});
for (const name of ["index.html", "icon.svg"]) cpSync(here(name), page + name);
writeFileSync(page + "licenses.txt", licenses());
