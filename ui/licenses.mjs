// The licenses of what is bundled: they have to be handed on with it.
import { readFileSync, readdirSync } from "node:fs";

export function licenses() {
  const lock = JSON.parse(readFileSync(new URL("package-lock.json", import.meta.url), "utf8"));
  const bundled = Object.entries(lock.packages).filter(([path, entry]) => path && !entry.dev && !entry.optional && !entry.peer);
  return bundled.map(([path, entry]) => {
    const folder = new URL(`${path}/`, import.meta.url);
    const file = readdirSync(folder).find((name) => /^licen[cs]e/i.test(name));
    const text = file ? readFileSync(new URL(file, folder), "utf8") : entry.license;
    return `${path.replace(/^node_modules\//, "")} ${entry.version}\n\n${text.trim()}\n`;
  }).join("\n\n----------------------------------------\n\n");
}
