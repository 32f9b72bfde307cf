// Sessions: the list, and one of them as it goes on, with what a person can do: send a message, answer, allow or deny, interrupt.
import { follow, get, mayAct, post } from "./api";
import { block, el, pill, say } from "./dom";
import { money, words } from "./format";
import { frame, list } from "./list";
import type { Tone } from "./model";

interface SessionSummary { id: string; agent: string; repository?: string | null; status: string; created_ms: number; requests: number; dead: number; pending: number; held_by?: string | null; usd: number }
interface SessionRequest { id: string; kind: string; tool: string; input: unknown; input_digest: string; expires_ms?: number | null }
interface Wake { id: string; due_ms: number; reason: string }
interface Session { id: string; agent: string; status: string; stop_reason: string; head: number; requests: SessionRequest[]; wakes: Wake[]; dead: [number, number][]; held?: { owner: string } | null; usage: { cost_microdollars: number } }
interface SessionEvent { seq: number; time_ms: number; type: string; by?: string; [field: string]: unknown }

const STATUS_TONE: { [status: string]: Tone } = { idle: "plain", running: "info", rescheduling: "info", requires_action: "warn", terminated: "plain" };
/** A longer log is shown from there on. */
const MAX_EVENTS = 2000;
const SHOWN_FIELDS = ["message", "title", "note", "error", "reason", "decision", "tool", "output", "result"];

export function sessionList(): Promise<void> {
  const line = (session: SessionSummary): HTMLElement => el(
    "a",
    { href: `/sessions/${session.id}` },
    el("b", {}, session.agent),
    pill(words(session.status), STATUS_TONE[session.status] ?? "plain"),
    el("span", { class: "muted" }, [session.repository ?? "", session.requests ? `${session.requests} to answer` : "", session.pending ? `${session.pending} waiting` : "", session.dead ? `${session.dead} dead` : "", session.held_by ?? "", session.usd ? money(session.usd) : ""].filter(Boolean).join(" · ")),
    el("time", {}, new Date(session.created_ms).toLocaleString()),
  );
  const filters = [{ name: "status", label: "Status", words: Object.keys(STATUS_TONE) }, { name: "agent", label: "Agent" }, { name: "repository", label: "Repository" }];
  return list({ title: "Sessions", path: "/v1/sessions", field: "sessions", filters, line, nothing: "No session is stored yet: fullsend session create makes one." });
}

export async function sessionPage(id: string): Promise<void> {
  const path = `/v1/sessions/${id}`;
  const status = el("p", { class: "subject", role: "status" });
  const open = el("section", { "aria-label": "Requests" });
  const log = el("ol", { class: "log", "aria-label": "Log" });
  const problem = el("p", { class: "problem", role: "alert" });
  const act = (action: string, body: unknown): void => {
    problem.textContent = "";
    post(`${path}/${action}`, body).catch((error: unknown) => { say(problem, error); });
  };
  const isOperator = await mayAct();
  document.body.replaceChildren(frame("Session", status, open, problem, ...(isOperator ? [messageForm(act)] : []), el("h2", {}, "Log"), log));

  let shown = "";
  const draw = async (): Promise<number> => {
    const session = await get<Session>(path);
    const dead = session.dead.reduce((sum, [first, last]) => sum + last - first + 1, 0);
    status.replaceChildren(el("b", {}, session.agent), " ", pill(words(session.status), STATUS_TONE[session.status] ?? "plain"), " ", el("code", {}, session.id), " ",
      el("span", { class: "muted" }, [session.held ? `worker ${session.held.owner}` : "", money(session.usage.cost_microdollars / 1e6), ...session.wakes.map((wake) => `wakes ${new Date(wake.due_ms).toLocaleString()}: ${wake.reason}`), dead ? `${dead} dead letters` : ""].filter(Boolean).join(" · ")));
    // A form that a person fills in stays until its request is answered.
    const wanted = session.requests.map((request) => request.id).join() + dead;
    if (wanted === shown) return session.head;
    shown = wanted;
    open.replaceChildren(...session.requests.map((request) => requestForm(request, isOperator ? act : null)));
    if (dead && isOperator) open.append(button("Retry dead letters", () => act("dead-letters/retry", {})));
    return session.head;
  };
  const first = Math.max((await draw()) - MAX_EVENTS, 0);
  if (first > 0) log.before(el("p", { class: "muted" }, `The last ${MAX_EVENTS.toLocaleString("en")} events. fullsend session events ${id} prints all.`));
  let grown = false;
  setInterval(() => {
    if (!grown) return;
    grown = false;
    draw().catch(() => undefined);
  }, 200);
  await follow(`${path}/events`, first, (data) => {
    log.append(entry(JSON.parse(data) as SessionEvent));
    if (log.childElementCount > MAX_EVENTS) log.firstElementChild?.remove();
    grown = true;
  });
  await draw();
}

function entry(event: SessionEvent): HTMLElement {
  const text = SHOWN_FIELDS.map((name) => event[name]).filter((value) => value !== undefined && value !== null).map((value) => (typeof value === "string" ? value : JSON.stringify(value))).join(" · ");
  const kind = /^(user|agent)\.message$/.test(event.type) ? "spoken" : text || event.by ? "" : "minor";
  return el("li", { id: `e${event.seq}`, class: kind }, el("code", {}, event.type), event.by ? el("span", { class: "muted" }, `by ${event.by}`) : null, runLink(event["run_id"]), el("time", {}, new Date(event.time_ms).toLocaleTimeString()), text ? block(text, event.type, 2000) : null);
}

function runLink(id: unknown): HTMLElement | null {
  return typeof id === "string" && /^[0-9a-f-]{36}$/.test(id) ? el("a", { href: `/runs/${id}` }, "Open the run") : null;
}

function button(name: string, click: () => void, kind = ""): HTMLElement {
  const made = el("button", { type: "button", class: `act ${kind}` }, name);
  made.addEventListener("click", click);
  return made;
}

function messageForm(act: (action: string, body: unknown) => void): HTMLElement {
  const field = el("textarea", { id: "message", rows: 2, placeholder: "Write to the agent" });
  const send = button("Send", () => {
    act("events", { type: "user.message", message: field.value });
    field.value = "";
  }, "main");
  return el("div", { class: "say" }, el("label", { for: "message" }, "Message"), field, send, button("Interrupt", () => act("interrupt", {})));
}

/** A question takes an answer; a confirmation takes allow or deny, for exactly the input that is shown. */
function requestForm(request: SessionRequest, act: ((action: string, body: unknown) => void) | null): HTMLElement {
  const input = block(JSON.stringify(request.input, null, 2), `Input of ${request.tool}`);
  const heading = el("h2", {}, request.kind === "confirmation" ? `May it call ${request.tool}?` : `${request.tool} asks`);
  const path = `requests/${request.id}`;
  if (!act) return el("div", { class: "ask" }, heading, input);
  if (request.kind === "confirmation") {
    const decide = (decision: string) => () => act(`${path}/confirm`, { decision, input_digest: request.input_digest });
    const note = el("p", { class: "muted" }, "Your answer holds for one call with exactly this input.");
    return el("div", { class: "ask" }, heading, input, note, button("Allow once", decide("allow"), "main"), button("Deny", decide("deny")));
  }
  const field = el("textarea", { rows: 2, "aria-label": `Answer to ${request.tool}` });
  const answer = button("Answer", () => act(`${path}/answer`, { output: parsed(field.value), input_digest: request.input_digest }), "main");
  return el("div", { class: "ask" }, heading, input, field, answer);
}

/** JSON where it is JSON, text otherwise. */
function parsed(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    return text;
  }
}
