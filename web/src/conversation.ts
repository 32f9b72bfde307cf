// What the agent was told, said and did, attempt by attempt, with the guard's verdict on each call.
import type { ConversationEntry, ConversationRecord, RunPage } from "./types";
import { block, el, empty, pill } from "./dom";
import { bytes, duration, plural } from "./format";
import { outputs, SEVERITY_TONE, type Model, type ToolCall } from "./model";

/** More is added when the reader scrolls to the end. */
const CHUNK = 120;

export function conversation(model: Model): HTMLElement {
  const conversations = model.page.conversations.length > 0 ? model.page.conversations : fromEvents(model.page);
  const parts = conversations.flatMap((one) => [() => heading(one, model.page), ...entries(one, model)]);
  const notes = verdicts(model.page);
  if (parts.length === 0) return empty("The agent was not started.");
  const list = el("div", { class: "conversation" });
  let next = 0;
  const end = el("div", { class: "end" });
  const grow = (): void => {
    list.append(...parts.slice(next, next + CHUNK).map((part) => part()));
    next += CHUNK;
    if (next >= parts.length) { end.remove(); watcher.disconnect(); }
  };
  const watcher = new IntersectionObserver((seen) => { if (seen.some((one) => one.isIntersecting)) grow(); }, { rootMargin: "800px" });
  const whole = el("div", {}, list, end, notes);
  watcher.observe(end);
  grow();
  return whole;
}

function heading(conversation: ConversationRecord, page: RunPage): HTMLElement {
  const attempt = page.run.attempts.find((one) => one.iteration === conversation.iteration);
  const verdict = !attempt ? null : attempt.accepted ? pill("accepted", "good") : attempt.violations.length > 0 ? pill("rejected", "bad") : pill(String(attempt.ending ?? "not ended"), "plain");
  const name = conversation.agent ? `Sub-agent ${conversation.agent}` : `Attempt ${conversation.iteration}`;
  return el("h2", { class: "attempt", id: `attempt-${conversation.iteration}` }, name, verdict);
}

/** Without a transcript, the events still say what happened. */
function fromEvents(page: RunPage): ConversationRecord[] {
  const found = new Map<number, ConversationRecord>();
  const add = (iteration: number, entry: ConversationEntry): void => {
    const known = found.get(iteration) ?? { iteration, agent: "", entries: [] };
    known.entries.push(entry);
    found.set(iteration, known);
  };
  for (const event of page.events) {
    if (event.type === "agent_text") add(event.iteration, { type: "said", text: event.text });
    if (event.type === "tool_started") add(event.iteration, { type: "tool_call", call: event.call, tool: event.tool, input: event.summary });
  }
  return [...found.values()];
}

function entries(conversation: ConversationRecord, model: Model): (() => HTMLElement)[] {
  const results = outputs(conversation.entries);
  return conversation.entries.flatMap((entry) => {
    switch (entry.type) {
      case "told": return [() => message("Told", entry.text, "told")];
      case "said": return entry.text.trim() ? [() => message("Agent", entry.text, "said")] : [];
      case "thought": return [() => folded("Thought", entry.text)];
      case "tool_call": return [() => tool(entry, results.get(entry.call), model.calls.get(entry.call))];
      default: return [];
    }
  });
}

function message(who: string, text: string, kind: string): HTMLElement {
  if (kind === "told") return folded(`Told the agent: ${text.split("\n")[0]?.slice(0, 120) ?? ""}`, text);
  return el("article", { class: `message ${kind}` }, el("h3", {}, who), el("p", { class: "prose" }, text.trim()));
}

function folded(summary: string, text: string): HTMLElement {
  return el("details", { class: "message told" }, el("summary", {}, summary), block(text, "Text"));
}

function tool(
  entry: Extract<ConversationEntry, { type: "tool_call" }>,
  result: Extract<ConversationEntry, { type: "tool_result" }> | undefined,
  call: ToolCall | undefined,
): HTMLElement {
  const failed = result?.is_error || call?.failed || false;
  const verdict = call?.denied ? pill("denied", "bad") : call ? pill("allowed", "good") : pill("no event", "plain");
  const status = call?.denied ? null : failed ? pill("failed", "warn") : result || call?.bytes !== null ? pill("ok", "plain") : pill("not ended", "warn");
  const figures = call ? `${duration(call.end - call.start)}${call.bytes === null ? "" : `, ${bytes(call.bytes)}`}` : "";
  return el(
    "article",
    { class: `message tool${call?.denied ? " denied" : ""}` },
    el("h3", {}, el("span", { class: "name" }, entry.tool), verdict, status, el("span", { class: "muted" }, figures), call ? el("a", { href: `#e${call.seq}` }, `#${call.seq}`) : null),
    input(entry.input),
    call?.denied ? el("p", { class: "reason" }, call.denied) : null,
    call && call.findings.length > 0 ? rules(call) : null,
    call && call.refused.length > 0 ? refusals(call) : null,
    result && result.output !== "" ? output(result.output) : null,
  );
}

/** A call with one text, such as a command, is shown as that text. */
function input(text: string): HTMLElement | null {
  if (text === "") return null;
  try {
    const fields: unknown = JSON.parse(text);
    const values = fields && typeof fields === "object" ? Object.values(fields) : [];
    if (values.length === 1 && typeof values[0] === "string") return block(values[0], "Input");
  } catch {
    // It is not JSON: shown as it is.
  }
  return block(text, "Input");
}

function output(text: string): HTMLElement {
  const lines = text.split("\n").length;
  return el("details", { class: "output", open: lines <= 12 }, el("summary", {}, `Output, ${plural(lines, "line")}`), block(text, "Output"));
}

function rules(call: ToolCall): HTMLElement {
  const items = call.findings.map((one) => el("li", {}, pill(one.severity, SEVERITY_TONE[one.severity] ?? "plain"), el("code", {}, one.rule), ` ${one.action ?? ""} ${one.excerpt}`));
  return el("ul", { class: "rules" }, ...items);
}

function refusals(call: ToolCall): HTMLElement {
  const items = call.refused.slice(0, 20).map((row) => el("li", {}, pill("network denied", "bad"), el("a", { href: `#e${row.event.seq}` }, `#${row.event.seq}`), ` ${row.detail}`));
  return el("ul", { class: "rules" }, ...items);
}

function verdicts(page: RunPage): HTMLElement {
  const items = page.run.attempts.filter((one) => one.violations.length > 0 || one.accepted).map((one) =>
    el("li", {}, `Attempt ${one.iteration}: `, one.accepted ? "the output was accepted." : `the output was rejected for ${plural(one.violations.length, "violation")}.`),
  );
  return el("ul", { class: "verdicts" }, ...items);
}
