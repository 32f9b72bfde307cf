// What the run was allowed, and which file and line said so.
import type { ExplainedValue, RunPage } from "./types";
import { block, el, empty, pill, section, table } from "./dom";

export function policy(page: RunPage): HTMLElement {
  const run = page.run;
  const configuration = page.configuration;
  const weaker = [
    ...run.toggles.map((one) => [el("code", {}, one.field), one.value, one.place]),
    ...run.exceptions.map((one) => [el("code", {}, one.field), one.what, `${one.reason}${one.until ? `, until ${one.until}` : ""}`]),
    ...(run.overrides ?? []).map((one) => [el("code", {}, one.field), one.value, "the command line"]),
  ];
  const parts = run.sandbox.map((one) => [el("code", {}, one.part), pill(one.status, one.status === "enforced" ? "good" : one.status === "watched" ? "info" : "warn"), one.reason]);
  const proofs = run.proofs.map((one) => [el("code", {}, one.name), one.held ? pill("held", "good") : pill("failed", "bad")]);
  const inputs = run.inputs.map((one) => [one.kind, el("code", {}, one.name), el("code", { class: "digest" }, one.sha256)]);
  return el(
    "div",
    {},
    weaker.length > 0 ? section("Weaker than the defaults, or set for this run", table("Exceptions", ["Field", "Value", "Reason"], weaker)) : null,
    configuration
      ? el("div", {}, section("Effective policy", explained("Effective policy", configuration.effective_policy)), section(`Policy as written: ${configuration.policy.name}`, block(configuration.policy.text, "Policy")), section("Every value, and what set it", explained("Values", configuration.values)))
      : empty("This run did not keep its configuration: an earlier version of fullsend made it."),
    parts.length > 0 ? section("Sandbox", table("Sandbox", ["Part", "Status", "How"], parts)) : null,
    proofs.length > 0 ? section("Proof before the agent started", table("Proof", ["Attempt", "Result"], proofs)) : null,
    inputs.length > 0 ? section("Inputs", table("Inputs", ["Kind", "Name", "SHA-256"], inputs)) : null,
    run.artifacts.length > 0 ? section("Artifacts", table("Artifacts", ["Path", "SHA-256"], run.artifacts.map((one) => [el("code", {}, one.path), el("code", { class: "digest" }, one.sha256)]))) : null,
    section("End of the chain", el("p", {}, el("code", { class: "digest" }, run.chain_head))),
  );
}

function explained(name: string, values: ExplainedValue[]): HTMLElement {
  const rows = values.map((one) => [
    el("code", {}, one.field),
    el("span", { class: "value" }, one.value),
    el("span", {}, `${one.set_by.file}${one.set_by.line > 0 ? `:${one.set_by.line}` : ""}`, el("span", { class: "muted" }, ` ${one.set_by.layer}`), ...one.replaced.map((over) => el("span", { class: "over" }, `over ${over.file}:${over.line}`))),
  ]);
  return table(name, ["Field", "Value", "Set by"], rows);
}
