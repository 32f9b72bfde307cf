// The egress map: which program asked for which host, and what was decided, by which line of the policy.
import type { ConnectionEvent, PageEvent } from "./types";
import { el, empty, pill, section, svg, table } from "./dom";
import { bytes, count, plural } from "./format";
import { DECISION_TONE, type Model } from "./model";

interface Flow { program: string; host: string; decision: string; number: number; seq: number; rule: string; reason: string; fix: string; bytes: number }

const MOST_NODES = 12;

export function network(model: Model): HTMLElement {
  const flows = grouped(model.page.events);
  if (flows.length === 0) return empty("Nothing tried to leave the sandbox.");
  const rows = flows.map((flow) => [
    el("code", {}, flow.program),
    el("code", {}, flow.host),
    el("span", {}, pill(flow.decision, DECISION_TONE[flow.decision] ?? "plain"), flow.number > 1 ? ` × ${count(flow.number)}` : ""),
    flow.rule ? el("code", {}, flow.rule) : el("span", { class: "muted" }, flow.reason || "no rule"),
    flow.bytes > 0 ? bytes(flow.bytes) : "",
    el("a", { href: `#e${flow.seq}` }, `#${flow.seq}`),
  ]);
  const fixes = flows.filter((flow) => flow.fix);
  return el(
    "div",
    {},
    map(flows),
    table("Connections", ["Program", "Host", "Decision", "Rule or reason", "Bytes", "Event"], rows),
    fixes.length > 0 ? section("What would allow it", el("p", { class: "muted" }, "The smallest additions to the policy. Add one only if the agent needs it."), ...fixes.slice(0, 20).map((flow) => el("pre", { class: "text", tabindex: 0, role: "group", "aria-label": `Addition for ${flow.host}` }, flow.fix))) : null,
  );
}

function grouped(events: PageEvent[]): Flow[] {
  const flows = new Map<string, Flow>();
  const add = (flow: Flow): void => {
    const key = [flow.program, flow.host, flow.decision, flow.rule, flow.reason].join("\n");
    const known = flows.get(key);
    if (known) { known.number += 1; known.bytes += flow.bytes; } else flows.set(key, flow);
  };
  let started = false;
  for (const event of events) {
    started ||= event.type === "agent_started";
    if (event.type !== "egress") continue;
    const seen = event.event;
    if (seen.type === "name_refused") {
      add({ program: started ? "(name lookup)" : "(proof of the sandbox)", host: seen.name, decision: "denied", number: 1, seq: event.seq, rule: "", reason: seen.reason, fix: "", bytes: 0 });
    } else {
      add(connection(seen, event.seq));
    }
  }
  return [...flows.values()];
}

function connection(seen: ConnectionEvent, seq: number): Flow {
  return {
    program: seen.binary ?? "(unknown program)", host: `${seen.host}:${seen.port}`, decision: seen.decision, number: 1, seq,
    rule: seen.rule ?? "", reason: seen.reason ?? "", fix: seen.fix ?? "", bytes: seen.bytes_in + seen.bytes_out,
  };
}

/** Three columns and the lines between them. */
function map(flows: Flow[]): HTMLElement {
  const columns = [flows.map((one) => one.program), flows.map((one) => one.host), flows.map((one) => one.decision)].map((names) => {
    const different = [...new Set(names)];
    return different.length > MOST_NODES ? [...different.slice(0, MOST_NODES - 1), `${different.length - MOST_NODES + 1} more`] : different;
  });
  const rows = Math.max(...columns.map((names) => names.length));
  const height = rows * 38 + 34;
  const width = 900;
  const lefts = [8, 366, 742];
  const widths = [290, 300, 150];
  const y = (column: number, name: string): number => {
    const names = columns[column] ?? [];
    const found = names.indexOf(name);
    const index = found < 0 ? names.length - 1 : found;
    return 34 + (index + 0.5) * ((height - 34) / names.length);
  };
  const curve = (from: number, one: string, other: string, flow: Flow): SVGElement => {
    const x1 = (lefts[from] ?? 0) + (widths[from] ?? 0);
    const x2 = lefts[from + 1] ?? 0;
    const middle = (x1 + x2) / 2;
    const y1 = y(from, one);
    const y2 = y(from + 1, other);
    return svg("path", { d: `M${x1} ${y1}C${middle} ${y1} ${middle} ${y2} ${x2} ${y2}`, class: `flow ${DECISION_TONE[flow.decision] ?? "plain"}`, "stroke-width": Math.min(10, 1.5 + Math.log2(flow.number + 1)) });
  };
  const heads = ["Program", "Host", "Decision"].map((name, column) => svg("text", { x: lefts[column], y: 16, class: "head" }, name));
  const nodes = columns.flatMap((names, column) =>
    names.map((name) => {
      const tone = column === 2 ? DECISION_TONE[name] ?? "plain" : "plain";
      const box = { x: lefts[column], y: y(column, name) - 14, width: widths[column], height: 28, rx: 6, class: `node ${tone}` };
      const most = Math.floor(((widths[column] ?? 0) - 20) / 7.6);
      const label = name.length > most ? `…${name.slice(1 - most)}` : name;
      return svg("g", {}, svg("rect", box), svg("text", { x: (lefts[column] ?? 0) + 10, y: y(column, name) + 4.5, class: `label ${tone}` }, label), svg("title", {}, name));
    }),
  );
  const lines = flows.flatMap((flow) => [curve(0, flow.program, flow.host, flow), curve(1, flow.host, flow.decision, flow)]);
  const label = `Egress map: ${plural(flows.length, "kind")} of connection. The table below has the same.`;
  return el("div", { class: "scroll map", tabindex: 0, role: "group", "aria-label": "Egress map" }, svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, ...lines, ...heads, ...nodes));
}
