// One event with all its fields.
import { block, el, empty, pill } from "./dom";
import { since } from "./format";
import type { Model, Row } from "./model";

export function detail(model: Model, seq: number): HTMLElement {
  const index = model.rows.findIndex((row) => row.event.seq === seq);
  const row = model.rows[index];
  if (!row) return empty("Choose an event in the list to see all its fields.");
  const { seq: number, time, type, ...fields } = row.event as { [name: string]: unknown };
  return el(
    "article",
    { class: "detail" },
    el("div", { class: "line" }, el("h2", {}, row.name), pill(String(type), row.tone), el("a", { href: `#e${String(number)}` }, `#${String(number)}`)),
    el("p", { class: "muted" }, `${String(time)}, ${since(row.at)} after the start`),
    el("dl", { class: "fields" }, ...Object.entries(fields).flatMap(([name, value]) => field(name, value))),
    neighbours(model.rows, index),
  );
}

function field(name: string, value: unknown): HTMLElement[] {
  if (value === null || value === "") return [];
  if (typeof value === "object" && !Array.isArray(value)) {
    return Object.entries(value as { [name: string]: unknown }).flatMap(([inner, one]) => field(`${name}.${inner}`, one));
  }
  const text = typeof value === "string" ? value : JSON.stringify(value, null, 2);
  const shown = text.includes("\n") || text.length > 120 ? block(text, name) : el("code", {}, text);
  return [el("dt", {}, name), el("dd", {}, shown)];
}

function neighbours(rows: Row[], index: number): HTMLElement {
  const link = (row: Row | undefined, text: string): HTMLElement | null => (row ? el("a", { href: `#e${row.event.seq}` }, text) : null);
  return el("p", { class: "neighbours" }, link(rows[index - 1], "← Previous event"), link(rows[index + 1], "Next event →"));
}
