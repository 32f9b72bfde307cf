// The result beside its schema, with the violations of each attempt at the lines that they are about.
import type { AttemptFile, RunPage } from "./types";
import { block, el, empty, pill, section } from "./dom";
import { plural } from "./format";

export function result(page: RunPage): HTMLElement {
  const attempts = page.run.attempts.map((attempt) => {
    const files = page.results.filter((file) => file.iteration === attempt.iteration);
    const verdict = attempt.accepted ? pill("accepted", "good") : attempt.violations.length > 0 ? pill(`rejected: ${plural(attempt.violations.length, "violation")}`, "bad") : pill("not judged", "plain");
    const list = attempt.violations.map((one) => el("li", {}, el("code", {}, one.path || "/"), ` ${one.message}`));
    const pointers = attempt.violations.map((one) => one.path);
    return el("section", { class: "attempt-result" }, el("h2", {}, `Attempt ${attempt.iteration}`, verdict), list.length > 0 ? el("ul", { class: "violations" }, ...list) : null, ...files.map((file) => document_(file, pointers)));
  });
  if (attempts.length === 0) return empty("The agent was not started, so there is no result.");
  const schema = page.configuration?.schema;
  const text = schema ? formatted(schema.text) : null;
  return el(
    "div",
    { class: "beside" },
    el("div", {}, ...attempts.reverse()),
    el("div", {}, schema && text !== null ? section(`Schema ${schema.name}`, block(text, "Schema", 20_000)) : section("Schema", empty(page.configuration ? "The harness names no schema." : "This run did not keep its configuration."))),
  );
}

function document_(file: AttemptFile, pointers: string[]): HTMLElement {
  let value: unknown;
  try {
    value = JSON.parse(file.text);
  } catch {
    return el("div", {}, el("h3", {}, file.path), block(file.text, file.path));
  }
  const lines: [string, boolean][] = [];
  write(value, "", "", "", pointers, lines);
  const rows = lines.slice(0, 5000).map(([text, marked]) => el("span", { class: marked ? "row violated" : "row" }, text));
  return el("div", {}, el("h3", {}, file.path), el("pre", { class: "text", tabindex: 0, role: "group", "aria-label": file.path }, ...rows));
}

/** JSON as lines; a line at one of the pointers is marked. */
function write(value: unknown, pointer: string, indent: string, before: string, pointers: string[], lines: [string, boolean][], after = ""): void {
  const marked = pointer !== "" && pointers.includes(pointer);
  if (value === null || typeof value !== "object") {
    lines.push([`${indent}${before}${JSON.stringify(value)}${after}`, marked]);
    return;
  }
  const isList = Array.isArray(value);
  const [open, close] = isList ? ["[", "]"] : ["{", "}"];
  const fields = Object.entries(value);
  if (fields.length === 0) {
    lines.push([`${indent}${before}${open}${close}${after}`, marked]);
    return;
  }
  lines.push([`${indent}${before}${open}`, marked]);
  fields.forEach(([key, one], index) => {
    const step = key.replaceAll("~", "~0").replaceAll("/", "~1");
    const comma = index + 1 < fields.length ? "," : "";
    write(one, `${pointer}/${step}`, `${indent}  `, isList ? "" : `${JSON.stringify(key)}: `, pointers, lines, comma);
  });
  lines.push([`${indent}${close}${after}`, false]);
}

function formatted(text: string): string {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}
