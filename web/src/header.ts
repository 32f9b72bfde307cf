// The top of the page: how the run ended, and the figures that people ask for first.
import { el, pill } from "./dom";
import { count, duration, money, plural, words } from "./format";
import type { Model, Tone } from "./model";

const OUTCOME_TONE: { [outcome: string]: Tone } = { completed: "good", skipped: "plain", asked: "warn", no_output: "warn", interrupted: "warn" };

export function outcomeTone(outcome: string): Tone {
  return OUTCOME_TONE[outcome] ?? (outcome === "running" ? "info" : "bad");
}

const VERIFIED: { [status: string]: [Tone, string] } = {
  verified: ["good", "Verified: chain, record and digests hold"],
  signed: ["good", "Verified and signed"],
  running: ["info", "Still running"],
  changed: ["bad", "Changed after the run"],
};

export function header({ page, length, calls }: Model): HTMLElement {
  const run = page.run;
  const outcome = run.outcome ?? "running";
  const used = Object.values(run.usage);
  const cost = used.some((one) => one.usd !== null && one.usd !== undefined) ? money(used.reduce((sum, one) => sum + (one.usd ?? 0), 0)) : "no price";
  const tokens = used.reduce((sum, one) => sum + one.input + one.output, 0);
  const denied = [...calls.values()].filter((call) => call.denied !== null).length + (run.egress["denied"] ?? 0);
  const findings = Object.values(run.findings).reduce((sum, one) => sum + one, 0);
  const [tone, text] = VERIFIED[page.verification.status] ?? ["plain", page.verification.status];
  const models = Object.keys(run.usage).join(", ") || run.model || "no model";
  const subject = [run.repository || run.repository_directory || "local", run.branch, run.commit?.slice(0, 12)].filter(Boolean).join(" · ");
  return el(
    "header",
    { class: "top" },
    el(
      "div",
      { class: "headline" },
      el("p", { class: "brand" }, "fullsend", el("span", {}, " run")),
      el("h1", {}, run.harness || "Run"),
      pill(words(outcome), outcomeTone(outcome)),
      pill(text, tone),
    ),
    el("p", { class: "subject" }, subject, el("code", {}, run.run_id)),
    run.reason ? el("p", { class: "reason" }, run.reason) : null,
    problems(page.verification.problems),
    el(
      "dl",
      { class: "figures" },
      figure("Duration", duration(length)),
      figure("Cost", cost),
      figure("Tokens", count(tokens)),
      figure("Model", models),
      figure("Runtime", run.runtime),
      figure("Attempts", String(run.attempts.length)),
      figure("Tool calls", count(calls.size)),
      figure("Refused", count(denied), denied > 0 ? "bad" : ""),
      figure("Findings", count(findings), findings > 0 ? "warn" : ""),
      figure("Started", new Date(run.started).toLocaleString(undefined, { dateStyle: "medium", timeStyle: "medium" })),
    ),
  );
}

function figure(name: string, value: string, tone = ""): HTMLElement {
  return el("div", { class: tone }, el("dt", {}, name), el("dd", {}, value));
}

function problems(list: string[]): HTMLElement | null {
  if (list.length === 0) return null;
  return el(
    "details",
    { class: "problems", open: true },
    el("summary", {}, `${plural(list.length, "difference")} from what the run wrote`),
    el("ul", {}, ...list.slice(0, 50).map((one) => el("li", {}, one))),
  );
}
