// Types of the resource from the CRD's schema: src/generated.ts, not in git.
import { readFileSync, writeFileSync } from "node:fs";
import * as yaml from "js-yaml";
import { compile } from "json-schema-to-typescript";

const crd = yaml.load(readFileSync(new URL("../crds/streamjobs.yaml", import.meta.url), "utf8"));
const { spec, status } = crd.spec.versions[0].schema.openAPIV3Schema.properties;

// JSON Schema as TypeScript sees it: defaults and CEL rules mean nothing to the page, texts stay in the reference.
function plain(schema) {
  if (Array.isArray(schema)) return schema.map(plain);
  if (typeof schema !== "object" || schema === null) return schema;
  const found = {};
  for (const [key, value] of Object.entries(schema)) {
    if (key.startsWith("x-") || ["description", "default", "format", "maxItems", "minItems"].includes(key)) continue;
    found[key] = key === "properties" ? Object.fromEntries(Object.entries(value).map(([n, s]) => [n, plain(s)])) : plain(value);
  }
  return found;
}

const options = { bannerComment: "// Generated from crds/streamjobs.yaml by types.mjs.", additionalProperties: false, format: false };
const parts = [
  await compile(plain(spec), "Spec", options),
  await compile(plain(status), "Status", { ...options, bannerComment: "" }),
];
writeFileSync(new URL("src/generated.ts", import.meta.url), parts.join("\n"));
