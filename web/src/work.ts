// What is being worked on: workers with their leases or without, queued wakes, dead letters and webhooks that were given up. An operator
// retries what was given up.
import { get, mayAct, post } from "./api";
import { el, empty, pill, say, section, table } from "./dom";
import { plural } from "./format";
import { frame } from "./list";

interface HeldLease { worker: string; session: string; agent: string; until_ms: number }
interface Worker { name: string; host: string; repositories: string[]; agent?: string | null; labels: string[]; concurrency: number; started_ms: number; seen_ms: number }
interface PlannedWake { session: string; agent: string; due_ms: number; reason: string }
interface DeadLetterCount { session: string; agent: string; inputs: number }
interface Work { now_ms: number; leases: HeldLease[]; wakes: PlannedWake[]; dead_letters: DeadLetterCount[] }
interface Delivery { id: string; webhook: string; type: string; created: string; attempts: number; problem?: string | null }

const REFRESH_MS = 10_000;
/** An idle worker reports itself about once a minute. */
const SILENT_MS = 180_000;

export async function workPage(): Promise<void> {
  const body = el("div", { "aria-live": "polite" });
  const problem = el("p", { class: "problem", role: "alert" });
  document.body.replaceChildren(frame("Work", problem, body));
  const isOperator = await mayAct();
  const draw = async (): Promise<void> => {
    const [work, { workers }, { deliveries }] = await Promise.all([
      get<Work>("/v1/work"), get<{ workers: Worker[] }>("/v1/workers"), get<{ deliveries: Delivery[] }>("/v1/deliveries"),
    ]);
    body.replaceChildren(...sections(work, workers, deliveries, isOperator ? retry : null));
  };
  const retry = (path: string, about: unknown): void => {
    problem.textContent = "";
    post(path, about).then(draw).catch((error: unknown) => { say(problem, error); });
  };
  await draw();
  setInterval(() => { if (document.visibilityState === "visible" && !body.contains(document.activeElement)) draw().catch(() => undefined); }, REFRESH_MS);
}

type Retry = ((path: string, about: unknown) => void) | null;

function sections(work: Work, workers: Worker[], deliveries: Delivery[], retry: Retry): HTMLElement[] {
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
    shown("Workers", ["Worker", "State", "Runs", "Serves", "Last seen"], workerRows(work, workers), "No worker waits for sessions: fullsend worker starts one."),
    shown("Queued wakes", ["Session", "Due", "Reason"], wakes, "No wake is queued."),
    shown("Dead letters", ["Session", "Given up", "Action"], dead, "No input was given up."),
    shown("Webhooks that were given up", ["Webhook", "Event", "Since", "Why", "Action"], given, "No delivery was given up."),
  ];
}

/** Workers by their last report, then those that are known by their leases only, such as `session run`. */
function workerRows(work: Work, workers: Worker[]): (Node | string)[][] {
  const leases = new Map<string, HeldLease[]>();
  for (const lease of work.leases) leases.set(lease.worker, [...(leases.get(lease.worker) ?? []), lease]);
  const named = new Set(workers.map((worker) => worker.name));
  const known = workers.map((worker) => {
    const held = leases.get(worker.name) ?? [];
    const state = held.length > 0 ? pill("running", "info") : work.now_ms - worker.seen_ms > SILENT_MS ? pill("silent", "warn") : pill("idle", "plain");
    return [identity(worker.name, worker.host), state, held.length > 0 ? runs(held) : `up to ${worker.concurrency}`, serves(worker), time(worker.seen_ms)];
  });
  const others = [...leases].filter(([name]) => !named.has(name)).map(([name, held]) => [identity(name, ""), pill("running", "info"), runs(held), "", ""]);
  return [...known, ...others];
}

function identity(name: string, host: string): HTMLElement {
  return el("span", {}, host ? el("b", {}, host) : null, el("span", { class: "digest over" }, name));
}

function runs(held: HeldLease[]): HTMLElement {
  return el("span", {}, ...held.map((lease) => el("span", { class: "held" }, link(lease.session, lease.agent), el("span", { class: "over" }, "lease until ", time(lease.until_ms)))));
}

function serves(worker: Worker): HTMLElement {
  const only = [worker.agent ? `agent ${worker.agent}` : "", ...worker.labels.map((label) => `label ${label}`)].filter(Boolean).join(" · ");
  return el("span", {}, worker.repositories.join(", "), only ? el("span", { class: "over" }, only) : null);
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
