// What the scanners and the guard found: rule, place, span, score, and what was done about it.
import { el, empty, pill } from "./dom";
import { plural, words } from "./format";
import { SEVERITY_TONE, type Model } from "./model";

const ORDER = ["critical", "high", "medium", "low"];
const MOST = 500;

export function findings(model: Model): HTMLElement {
  const found = model.page.events.flatMap((event) => (event.type === "finding" ? [event] : []));
  const broken = model.page.events.flatMap((event) => (event.type === "scanner_broke" ? [event] : []));
  if (found.length + broken.length === 0) return empty("The scanners found nothing.");
  found.sort((one, other) => ORDER.indexOf(one.severity) - ORDER.indexOf(other.severity) || one.seq - other.seq);
  const cards = found.slice(0, MOST).map((one) =>
    el(
      "article",
      { class: `finding ${SEVERITY_TONE[one.severity] ?? "plain"}` },
      el("h2", {}, pill(one.severity, SEVERITY_TONE[one.severity] ?? "plain"), el("code", {}, one.rule), one.action ? el("span", { class: "muted" }, words(one.action)) : null, el("a", { href: `#e${one.seq}` }, `#${one.seq}`)),
      el("blockquote", {}, one.excerpt),
      el(
        "dl",
        { class: "inline" },
        item("Place", `${one.place}:${one.line}${one.column ? `:${one.column}` : ""}`),
        one.end ? item("Span", `bytes ${one.start ?? 0}–${one.end}`) : null,
        one.score === null || one.score === undefined ? null : item("Score", one.score.toFixed(3)),
        one.category ? item("Family", words(one.category)) : null,
        one.origin ? item("Origin", one.origin) : null,
        one.suppressed ? item("Waiver", one.suppressed) : null,
        one.kept ? item("Kept in", one.kept) : null,
      ),
      one.advice ? el("p", { class: "muted" }, one.advice) : null,
    ),
  );
  const failures = broken.map((one) => el("article", { class: "finding bad" }, el("h2", {}, pill("scanner broke", "bad"), el("code", {}, one.scanner), el("a", { href: `#e${one.seq}` }, `#${one.seq}`)), el("p", {}, `${one.place}: ${one.reason}`)));
  const more = found.length > MOST ? empty(`${plural(found.length - MOST, "more finding")}: the list of events has them.`) : null;
  return el("div", { class: "findings" }, ...failures, ...cards, more);
}

function item(name: string, value: string): HTMLElement {
  return el("div", {}, el("dt", {}, name), el("dd", {}, value));
}
