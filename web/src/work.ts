// What is being worked on: workers with their leases, queued wakes, dead letters and webhooks that were given up. An operator
// retries what was given up.
import { get, mayAct, post } from "./api";
import { el, empty, section, table } from "./dom";
import { plural } from "./format";
import { frame } from "./list";

interface HeldLease { worker: string; session: string; agent: string; until_ms: number }
interface PlannedWake { session: string; agent: string; due_ms: number; reason: string }
interface DeadLetterCount { session: string; agent: string; inputs: number }
interface Work { now_ms: number; leases: HeldLease[]; wakes: PlannedWake[]; dead_letters: DeadLetterCount[] }
interface Delivery { id: string; webhook: string; type: string; created: string; attempts: number; problem?: string | null }

const REFRESH_MS = 10_000;

export async function workPage(): Promise<void> {
  const body = el("div", { "aria-live": "polite" });
  const problem = el("p", { class: "problem", role: "alert" });
  document.body.replaceChildren(frame("Work", problem, body));
  const isOperator = await mayAct();
  const draw = async (): Promise<void> => {
    const [work, given] = await Promise.all([get<Work>("/v1/work"), get<{ deliveries: Delivery[] }>("/v1/deliveries")]);
    body.replaceChildren(...sections(work, given.deliveries, isOperator ? retry : null));
  };
  const retry = (path: string, about: unknown): void => {
    problem.textContent = "";
    post(path, about).then(draw).catch((error: unknown) => { problem.textContent = error instanceof Error ? error.message : String(error); });
  };
  await draw();
  setInterval(() => { if (document.visibilityState === "visible" && !body.contains(document.activeElement)) draw().catch(() => undefined); }, REFRESH_MS);
}

type Retry = ((path: string, about: unknown) => void) | null;

function sections(work: Work, deliveries: Delivery[], retry: Retry): HTMLElement[] {
  const leases = work.leases.map((lease) => [lease.worker, link(lease.session, lease.agent), time(lease.until_ms)]);
  const wakes = work.wakes.map((wake) => [link(wake.session, wake.agent), wake.due_ms <= work.now_ms ? el("b", {}, "now") : time(wake.due_ms), wake.reason]);
  const dead = work.dead_letters.map((one) => [
    link(one.session, one.agent), plural(one.inputs, "input"),
    button(retry, `Retry the inputs of ${one.agent} ${one.session}`, () => retry?.(`/v1/sessions/${one.session}/dead-letters/retry`, {})),
  ]);
  const given = deliveries.map((one) => [
    one.webhook, one.type, time(Date.parse(one.created)), `${one.problem ?? ""} (${plural(one.attempts, "attempt")})`,
    button(retry, `Retry ${one.id}`, () => retry?.("/v1/deliveries/retry", { ids: [one.id] })),
  ]);
  const shown = (name: string, heads: string[], rows: (Node | string)[][], none: string): HTMLElement => section(name, rows.length > 0 ? table(name, heads, rows) : empty(none));
  return [
    shown("Workers", ["Worker", "Session", "Lease until"], leases, "No worker runs a session now."),
    shown("Queued wakes", ["Session", "Due", "Reason"], wakes, "No wake is queued."),
    shown("Dead letters", ["Session", "Given up", "Action"], dead, "No input was given up."),
    shown("Webhooks that were given up", ["Webhook", "Event", "Since", "Why", "Action"], given, "No delivery was given up."),
  ];
}

function link(session: string, agent: string): HTMLElement {
  return el("a", { href: `/sessions/${session}` }, `${agent} ${session.slice(-6)}`);
}

function time(ms: number): HTMLElement {
  return el("time", {}, new Date(ms).toLocaleString());
}

function button(retry: Retry, name: string, click: () => void): Node | string {
  if (!retry) return "";
  const made = el("button", { type: "button", class: "act", "aria-label": name }, "Retry");
  made.addEventListener("click", () => { made.disabled = true; click(); });
  return made;
}
