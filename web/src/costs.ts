// What the runs on this machine cost: by day, by agent and by repository.
import { get } from "./api";
import { el, empty, section, svg, table } from "./dom";
import { count, duration, money, plural } from "./format";
import { frame } from "./list";

interface CostTotal { key: string; runs: number; usd: number; unpriced_runs: number; input_tokens: number; output_tokens: number; duration_ms: number }
interface CostReport { total: CostTotal; rows: CostTotal[]; unreadable_runs: number }

const DAY_MS = 86_400_000;
const PERIODS: [string, number][] = [["Last 7 days", 7], ["Last 30 days", 30], ["All kept runs", 0]];

export async function costsPage(): Promise<void> {
  const period = el("select", {}, ...PERIODS.map(([name, days]) => el("option", { value: days, selected: days === 30 }, name)));
  const body = el("div", { "aria-live": "polite" });
  document.body.replaceChildren(frame("Costs", el("div", { class: "narrow" }, el("label", {}, "Period", period)), body));
  const draw = async (): Promise<void> => {
    const days = Number(period.value);
    const since = days > 0 ? `&since=${day(Date.now() - (days - 1) * DAY_MS)}` : "";
    const keys = ["day", "harness", "repository"];
    const [byDay, byAgent, byRepository] = await Promise.all(keys.map((key) => get<CostReport>(`/v1/costs?by=${key}${since}`)));
    body.replaceChildren(...(byDay && byAgent && byRepository ? report(byDay, byAgent, byRepository, days) : []));
    // On a narrow screen the newest days are in view.
    body.querySelector(".map")?.scrollTo({ left: Number.MAX_SAFE_INTEGER });
  };
  period.addEventListener("change", () => { draw().catch(() => undefined); });
  await draw();
}

function report(byDay: CostReport, byAgent: CostReport, byRepository: CostReport, days: number): HTMLElement[] {
  const { total } = byDay;
  if (total.runs === 0) return [empty("No run was recorded in this time.")];
  const figures: [string, string][] = [["Cost", money(total.usd)], ["Runs", count(total.runs)], ["Cost per run", money(total.usd / total.runs)], ["Tokens in", count(total.input_tokens)], ["Tokens out", count(total.output_tokens)], ["Time", duration(total.duration_ms)]];
  const notes = [total.unpriced_runs ? `${plural(total.unpriced_runs, "run")} used a model without a price.` : "", byDay.unreadable_runs ? `${plural(byDay.unreadable_runs, "run")} could not be read.` : ""].filter(Boolean);
  return [
    el("dl", { class: "figures card" }, ...figures.map(([name, value]) => el("div", {}, el("dt", {}, name), el("dd", {}, value)))),
    el("p", { class: "muted" }, notes.join(" ")),
    section("By day", columns(byDay.rows, days)),
    section("By agent", totals("By agent", "Agent", byAgent.rows)),
    section("By repository", totals("By repository", "Repository", byRepository.rows)),
  ];
}

function totals(name: string, head: string, rows: CostTotal[]): HTMLElement {
  const most = Math.max(...rows.map((row) => row.usd)) || 1;
  const cells = rows.map((row) => {
    const share = el("span", { class: "share", "aria-hidden": "true" }, el("span"));
    (share.firstChild as HTMLElement).style.setProperty("width", `${(row.usd / most) * 100}%`);
    return [row.key || "none", el("span", {}, el("b", {}, money(row.usd)), share), count(row.runs), money(row.usd / row.runs), count(row.input_tokens + row.output_tokens), duration(row.duration_ms)];
  });
  return table(name, [head, "Cost", "Runs", "Per run", "Tokens", "Time"], cells);
}

/** One column for each day, also for days without a run. */
function columns(rows: CostTotal[], days: number): HTMLElement {
  const known = new Map(rows.map((row) => [row.key, row]));
  const oldest = Date.parse(`${rows.at(-1)?.key ?? day(Date.now())}T00:00:00Z`);
  const today = Date.parse(`${day(Date.now())}T00:00:00Z`);
  const number = Math.min(Math.max(days || Math.round((today - oldest) / DAY_MS) + 1, 7), 90);
  const width = 900;
  const height = 190;
  const left = 64;
  const bottom = height - 26;
  const most = Math.max(...rows.map((row) => row.usd)) || 1;
  const step = (width - left - 8) / number;
  const y = (usd: number): number => bottom - (usd / most) * (bottom - 14);
  const grid = [0, 0.5, 1].map((part) => svg("g", {}, svg("line", { x1: left, x2: width - 8, y1: y(most * part), y2: y(most * part), class: "grid" }), svg("text", { x: left - 8, y: y(most * part) + 4, "text-anchor": "end", class: "tick" }, money(most * part))));
  const bars = Array.from({ length: number }, (_, index) => {
    const name = day(today - (number - 1 - index) * DAY_MS);
    const row = known.get(name);
    const x = left + index * step;
    const label = index % Math.ceil(number / 8) === 0 ? svg("text", { x: x + step / 2, y: height - 8, "text-anchor": "middle", class: "tick" }, name.slice(5)) : null;
    const bar = row ? svg("rect", { x: x + step * 0.14, y: Math.min(y(row.usd), bottom - 2), width: step * 0.72, height: Math.max(bottom - y(row.usd), 2), rx: Math.min(3, step / 6), class: "column" }, svg("title", {}, `${name}: ${money(row.usd)}, ${plural(row.runs, "run")}`)) : null;
    return svg("g", {}, bar, label);
  });
  const label = `Cost by day: ${rows.slice(0, 7).map((row) => `${row.key} ${money(row.usd)}`).join(", ")}.`;
  return el("div", { class: "scroll map", tabindex: 0, role: "group", "aria-label": "Cost by day" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...grid, ...bars));
}

/** The day in UTC, as the server counts. */
function day(ms: number): string {
  return new Date(ms).toISOString().slice(0, 10);
}
