// What the page shows, worked out once from the events: rows, tool calls, spans of time.
import type { ConversationEntry, FindingEvent, PageEvent, RunPage } from "./types";
import { bytes, duration, money, plural, title, words } from "./format";

export type Tone = "plain" | "good" | "warn" | "bad" | "info";
export type Kind = "run" | "agent" | "tool" | "model" | "network" | "finding" | "sandbox";

/** One line of the list of events. */
export interface Row {
  event: PageEvent;
  /** Milliseconds since the run began. */
  at: number;
  kind: Kind;
  tone: Tone;
  name: string;
  detail: string;
}

export interface ToolCall {
  call: string;
  tool: string;
  summary: string;
  iteration: number;
  /** The sub-agent that made it; empty for the agent itself. */
  agent: string;
  seq: number;
  start: number;
  end: number;
  bytes: number | null;
  failed: boolean;
  /** Why the guard denied it. */
  denied: string | null;
  findings: FindingEvent[];
  /** What it tried to reach and did not. */
  refused: Row[];
}

export interface Span {
  lane: string;
  name: string;
  start: number;
  end: number;
  tone: Tone;
  kind: "step" | "turn" | "tool" | "mark";
  seq: number;
}

export interface Model {
  page: RunPage;
  rows: Row[];
  calls: Map<string, ToolCall>;
  spans: Span[];
  lanes: string[];
  length: number;
  start: number;
}

export function build(page: RunPage): Model {
  const first = page.events[0];
  const start = first ? Date.parse(first.time) : 0;
  const rows: Row[] = page.events.map((event) => ({ event, at: Date.parse(event.time) - start, ...describe(event) }));
  markProof(rows);
  const length = Math.max(1, rows.at(-1)?.at ?? 0);
  const calls = toolCalls(page, rows, length);
  const spans = [...steps(rows, length), ...turns(rows, length), ...callSpans(calls), ...marks(rows)];
  const lanes: string[] = [];
  for (const span of spans) if (!lanes.includes(span.lane)) lanes.push(span.lane);
  return { page, rows, calls, spans, lanes: orderLanes(lanes), length, start };
}

/** Before the agent starts, the sandbox proves itself by asking for a name that must be refused. */
function markProof(rows: Row[]): void {
  for (const row of rows) {
    if (row.event.type === "agent_started") return;
    if (row.event.type === "egress" && row.tone === "bad") Object.assign(row, { kind: "sandbox", tone: "good", name: "Proof: name refused" });
  }
}

function orderLanes(lanes: string[]): string[] {
  const rank = (lane: string): number => ["Steps", "Attempt", "Sub-agent", "Network", "Findings"].findIndex((word) => lane.startsWith(word));
  return lanes.sort((one, other) => rank(one) - rank(other) || (one < other ? -1 : 1));
}

/** The agent whose transcript has a call. */
function agentsOfCalls(page: RunPage): Map<string, string> {
  const found = new Map<string, string>();
  for (const conversation of page.conversations) {
    for (const entry of conversation.entries) {
      if (entry.type === "tool_call") found.set(entry.call, conversation.agent);
    }
  }
  return found;
}

function toolCalls(page: RunPage, rows: Row[], length: number): Map<string, ToolCall> {
  const agents = agentsOfCalls(page);
  const calls = new Map<string, ToolCall>();
  let waiting: FindingEvent[] = [];
  let latest: ToolCall | null = null;
  for (const row of rows) {
    const { event, at } = row;
    if (event.type === "tool_started") {
      latest = {
        call: event.call, tool: event.tool, summary: event.summary, iteration: event.iteration,
        agent: agents.get(event.call) ?? "", seq: event.seq, start: at, end: length, bytes: null,
        failed: false, denied: null, findings: waiting.filter((one) => one.place.endsWith(`/${event.tool}`)), refused: [],
      };
      waiting = [];
      calls.set(event.call, latest);
    } else if (event.type === "tool_finished") {
      const call = calls.get(event.call);
      if (call) Object.assign(call, { end: at, bytes: event.bytes, failed: event.is_error });
      if (call === latest) latest = null;
    } else if (event.type === "tool_denied") {
      const call = calls.get(event.call);
      if (call) Object.assign(call, { denied: event.reason, findings: [...call.findings, ...waiting] });
      else {
        latest = {
          call: event.call, tool: event.tool, summary: "", iteration: 0, agent: agents.get(event.call) ?? "",
          seq: event.seq, start: at, end: at, bytes: null, failed: false, denied: event.reason, findings: waiting, refused: [],
        };
        calls.set(event.call, latest);
      }
      waiting = [];
    } else if (event.type === "egress" && row.tone === "bad") {
      latest?.refused.push(row);
    } else if (event.type === "finding" && /^(call|result)\//.test(event.place)) {
      if (latest && event.place.endsWith(`/${latest.tool}`)) latest.findings.push(event);
      else waiting.push(event);
    }
  }
  return calls;
}

function steps(rows: Row[], length: number): Span[] {
  const open = new Map<string, Span>();
  const spans: Span[] = [];
  for (const { event, at } of rows) {
    if (event.type === "step_started") {
      const span: Span = { lane: "Steps", name: title(event.step), start: at, end: length, tone: "info", kind: "step", seq: event.seq };
      open.set(event.step, span);
      spans.push(span);
    } else if (event.type === "step_finished") {
      const span = open.get(event.step);
      if (span) Object.assign(span, { end: at, tone: event.ok ? "info" : "bad", name: `${span.name}, ${duration(event.duration_ms)}` });
    }
  }
  return spans;
}

function turns(rows: Row[], length: number): Span[] {
  const open = new Map<number, Span>();
  const spans: Span[] = [];
  let attempt = 1;
  for (const { event, at } of rows) {
    if (event.type === "agent_started") attempt = event.iteration;
    if (event.type !== "model") continue;
    const said = event.event;
    if (said.type === "model_request") {
      const span: Span = {
        lane: `Attempt ${attempt}`, name: `Turn ${said.turn + 1}, ${said.model}`, start: at, end: length, tone: "plain", kind: "turn", seq: event.seq,
      };
      open.set(said.exchange, span);
      spans.push(span);
    } else if ("exchange" in said) {
      const span = open.get(said.exchange);
      if (span && said.type === "model_answer") span.end = at;
      if (span && said.type === "model_answer" && said.ending !== "complete") span.tone = "warn";
      if (!span && said.type === "model_refused") {
        spans.push({ lane: `Attempt ${attempt}`, name: `Model refused: ${said.reason}`, start: at, end: at, tone: "bad", kind: "mark", seq: event.seq });
      }
    }
  }
  return spans;
}

function callSpans(calls: Map<string, ToolCall>): Span[] {
  return [...calls.values()].map((call) => ({
    lane: call.agent ? `Sub-agent ${call.agent}` : `Attempt ${call.iteration || 1}`,
    name: `${call.tool} ${call.summary}`.trim() + (call.denied ? " (denied)" : ""),
    start: call.start,
    end: call.end,
    tone: call.denied ? "bad" : call.failed || call.refused.length > 0 ? "warn" : "good",
    kind: "tool",
    seq: call.seq,
  }));
}

function marks(rows: Row[]): Span[] {
  const lane: { [kind in Kind]?: string } = { network: "Network", finding: "Findings" };
  return rows.flatMap((row) => {
    const name = lane[row.kind];
    return name ? [{ lane: name, name: `${row.name}: ${row.detail}`, start: row.at, end: row.at, tone: row.tone, kind: "mark" as const, seq: row.event.seq }] : [];
  });
}

export const SEVERITY_TONE: { [severity: string]: Tone } = { low: "plain", medium: "warn", high: "bad", critical: "bad" };
export const DECISION_TONE: { [decision: string]: Tone } = { allowed: "good", audited: "warn", denied: "bad", failed: "warn" };

type Description = Pick<Row, "kind" | "tone" | "name" | "detail">;

function row(kind: Kind, name: string, detail: string, tone: Tone = "plain"): Description {
  return { kind, name, detail, tone };
}

function describe(event: PageEvent): Description {
  switch (event.type) {
    case "run_started": return row("run", "Run started", `${event.harness} with ${event.runtime}`, "info");
    case "repository": return row("run", "Repository", `${event.branch} at ${event.commit.slice(0, 12)}`);
    case "input": return row("run", "Input", `${words(event.kind)} ${event.name}`);
    case "program": return row("run", "Program", `${event.version} ${event.place}`);
    case "image_pull": return row("run", "Image", `${event.name}: ${bytes(event.bytes)} of ${bytes(event.total_bytes)}`);
    case "skill_shadowed": return row("run", "Skill shadowed", `${event.skill} (${event.place})`, "warn");
    case "events_counted": return row("run", "Not listed", `${event.count} more events of the kind ${event.kind}`, "warn");
    case "skill_fetch": return event.refused === ""
      ? row("run", "Skill fetched", `${event.name} from ${event.url}`)
      : row("run", "Skill refused", `${event.url}: ${event.refused}`, "warn");
    case "toggle": return row("run", "Weaker setting", `${event.field} is ${event.value} (${event.place})`, "warn");
    case "exception": return row("run", "Exception", `${event.field} ${event.what}`, "warn");
    case "override": return row("run", "Override", `${event.field} = ${event.value}`);
    case "step_started": return row("run", title(event.step), "started");
    case "step_finished": return row("run", title(event.step), `${event.ok ? "finished" : "failed"} after ${duration(event.duration_ms)}`, event.ok ? "plain" : "bad");
    case "finding": return row("finding", event.rule, `${event.place}:${event.line} ${event.excerpt}`, event.suppressed ? "plain" : SEVERITY_TONE[event.severity] ?? "warn");
    case "scanner_broke": return row("finding", "Scanner broke", `${event.scanner}: ${event.reason}`, "bad");
    case "scanner": return row("run", "Scanner", `${words(event.family)}: ${event.by}`);
    case "review_requested": return row("run", "Review requested", event.label, "warn");
    case "sandbox_part": return row("sandbox", event.part, `${event.status}: ${event.reason}`, event.status === "enforced" ? "good" : event.status === "watched" ? "plain" : "warn");
    case "proof": return row("sandbox", `Proof ${event.name}`, event.detail, event.held ? "good" : "bad");
    case "egress": return egress(event.event);
    case "model": return model(event.event);
    case "agent_started": return row("agent", `Attempt ${event.iteration}`, "started", "info");
    case "agent_text": return row("agent", "Said", event.text);
    case "tool_started": return row("tool", event.tool, event.summary);
    case "tool_denied": return row("tool", `${event.tool} denied`, event.reason, "bad");
    case "hook_missing": return row("tool", "Call without a verdict", event.reason, "bad");
    case "tool_finished": return row("tool", event.is_error ? "Tool failed" : "Tool finished", bytes(event.bytes), event.is_error ? "warn" : "plain");
    case "agent_finished": return row("agent", `Attempt ${event.iteration}`, `${event.ending} after ${plural(event.turns, "turn")}`, event.ending === "finished" ? "plain" : "warn");
    case "output_rejected": return row("agent", "Output rejected", event.violations.map((one) => `${one.path || "/"} ${one.message}`).join("; "), "bad");
    case "output_accepted": return row("agent", "Output accepted", `by ${event.schema}`, "good");
    case "artifact": return row("run", "Artifact", `${event.path}, ${bytes(event.bytes)}`);
    case "api_server": return row("run", `Server ${event.name}`, `${event.state} ${event.detail}`, event.state === "ready" ? "plain" : "bad");
    case "kept": return row("run", "Workspace saved", event.problem || plural(event.files, "file"), event.problem ? "warn" : "plain");
    case "script_finished": return row("run", title(event.script), `exit ${event.exit} after ${duration(event.duration_ms)}`, event.exit === 0 ? "plain" : "bad");
    case "run_finished": return row("run", "Run finished", `${words(event.outcome)}, exit ${event.exit_code}${event.reason ? `: ${event.reason}` : ""}`, event.exit_code === 0 ? "good" : "bad");
    default: return row("run", words((event as { type: string }).type), "");
  }
}

function egress(event: Extract<PageEvent, { type: "egress" }>["event"]): Description {
  if (event.type === "name_refused") return row("network", "Name refused", `${event.name}: ${event.reason}`, "bad");
  const request = `${event.method ? `${event.method} ` : ""}${event.host}:${event.port}${event.path ?? ""}`;
  return row("network", title(event.decision), event.reason ? `${request}: ${event.reason}` : request, DECISION_TONE[event.decision] ?? "plain");
}

function model(event: Extract<PageEvent, { type: "model" }>["event"]): Description {
  switch (event.type) {
    case "model_request": return row("model", "Request", `${event.model}, turn ${event.turn + 1}, ${bytes(event.bytes)}`);
    case "model_answer": {
      const cost = event.cost === null || event.cost === undefined ? "" : `, ${money(event.cost / 1e9)}`;
      const text = `${event.usage.input} tokens in, ${event.usage.output} out${cost}, ${duration(event.duration_ms)}`;
      return row("model", "Answer", text, event.ending === "complete" ? "plain" : "warn");
    }
    case "model_refused": return row("model", "Refused", event.reason, "bad");
    case "budget_warning": return row("model", "Budget", `four fifths are spent: ${event.spent}`, "warn");
    case "budget_spent": return row("model", "Budget spent", event.spent, "bad");
    case "model_retry": return row("model", "Retry", event.reason, "warn");
    case "credential_refused": return row("model", "Credential refused", event.credential, "bad");
    case "stop": return row("model", "Stopped", event.reason, "bad");
    default: return row("model", words(event.type), "");
  }
}

/** The output of a call, as its transcript has it. */
export function outputs(entries: ConversationEntry[]): Map<string, Extract<ConversationEntry, { type: "tool_result" }>> {
  const found = new Map<string, Extract<ConversationEntry, { type: "tool_result" }>>();
  for (const entry of entries) if (entry.type === "tool_result") found.set(entry.call, entry);
  return found;
}
