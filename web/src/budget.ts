// The money and the tokens that the run used, as they grew.
import { el, empty, section, svg, table } from "./dom";
import { count, duration, money, plural } from "./format";
import type { Model } from "./model";

interface Point { at: number; value: number }

export function budget(model: Model): HTMLElement {
  const usd: Point[] = [{ at: 0, value: 0 }];
  const tokens: Point[] = [{ at: 0, value: 0 }];
  let priced = false;
  for (const row of model.rows) {
    if (row.event.type !== "model" || row.event.event.type !== "model_answer") continue;
    const { usage, cost } = row.event.event;
    priced ||= cost !== null && cost !== undefined;
    usd.push({ at: row.at, value: (usd.at(-1)?.value ?? 0) + (cost ?? 0) / 1e9 });
    tokens.push({ at: row.at, value: (tokens.at(-1)?.value ?? 0) + usage.input + usage.output });
  }
  if (tokens.length === 1) return empty("No model answered, so nothing was spent.");
  const limits = (model.page.configuration?.values ?? []).filter((one) => one.field.startsWith("budget."));
  const limit = Number(limits.find((one) => one.field === "budget.usd")?.value);
  const rows = Object.entries(model.page.run.usage).map(([name, used]) => [
    el("code", {}, name), count(used.requests), count(used.input), count(used.output), count(used.cache_read), count(used.cache_write), used.usd === null || used.usd === undefined ? "no price" : money(used.usd),
  ]);
  return el(
    "div",
    {},
    priced ? section("Cost", curve(usd, model.length, money, Number.isFinite(limit) && limit > 0 ? limit : null)) : null,
    section("Tokens", curve(tokens, model.length, count, null)),
    section("Models", table("Models", ["Model", "Requests", "Tokens in", "Tokens out", "Cache read", "Cache write", "Cost"], rows)),
    limits.length > 0 ? section("Limits", table("Limits", ["Limit", "Value", "Set by"], limits.map((one) => [el("code", {}, one.field), one.value, `${one.set_by.file}:${one.set_by.line}`]))) : null,
  );
}

function curve(points: Point[], length: number, show: (value: number) => string, limit: number | null): HTMLElement {
  const width = 900;
  const height = 190;
  const left = 74;
  const bottom = height - 26;
  const most = Math.max(points.at(-1)?.value ?? 0, limit ?? 0) * 1.08 || 1;
  const x = (at: number): number => left + (at / length) * (width - left - 12);
  const y = (value: number): number => bottom - (value / most) * (bottom - 12);
  let path = "";
  points.forEach((point, index) => {
    path += index === 0 ? `M${x(point.at)} ${y(point.value)}` : `H${x(point.at)}V${y(point.value)}`;
  });
  path += `H${x(length)}`;
  const grid = [0, 0.5, 1].map((part) => {
    const value = (most / 1.08) * part;
    return svg("g", {}, svg("line", { x1: left, x2: width - 12, y1: y(value), y2: y(value), class: "grid" }), svg("text", { x: left - 8, y: y(value) + 4, "text-anchor": "end", class: "tick" }, show(value)));
  });
  const times = [0, 0.25, 0.5, 0.75, 1].map((part) => svg("text", { x: x(length * part), y: height - 8, "text-anchor": part === 0 ? "start" : part === 1 ? "end" : "middle", class: "tick" }, part === 0 ? "0" : duration(length * part)));
  const line = limit === null ? null : svg("g", {}, svg("line", { x1: left, x2: width - 12, y1: y(limit), y2: y(limit), class: "limit" }), svg("text", { x: width - 16, y: y(limit) - 5, "text-anchor": "end", class: "tick" }, `limit ${show(limit)}`));
  const label = `${show(points.at(-1)?.value ?? 0)} after ${plural(points.length - 1, "answer")} in ${duration(length)}.`;
  return el("div", { class: "scroll map", tabindex: 0, role: "group", "aria-label": "Curve" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...grid, ...times, svg("path", { d: `${path}V${bottom}H${left}Z`, class: "area" }), svg("path", { d: path, class: "line" }), line));
}
