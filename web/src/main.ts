// The page of one run. In a file it reads the data that stands in the document, and asks nobody for anything; `fullsend serve`
// has no data in the document, and `live.ts` fetches them.
import type { RunPage } from "./types";
import { budget } from "./budget";
import { conversation } from "./conversation";
import { detail } from "./detail";
import { changes } from "./diff";
import { el } from "./dom";
import { eventList } from "./events";
import { findings } from "./findings";
import { header } from "./header";
import { live } from "./live";
import { build, type Model } from "./model";
import { network } from "./network";
import { policy } from "./policy";
import { result } from "./result";
import { timeline } from "./timeline";

interface Tab { id: string; name: string; note: string; make: () => HTMLElement }

function tabs(model: Model, selected: () => number): Tab[] {
  const { page } = model;
  const refused = page.run.egress["denied"] ?? 0;
  const number = Object.values(page.run.findings).reduce((sum, one) => sum + one, 0);
  return [
    { id: "conversation", name: "Conversation", note: "", make: () => conversation(model) },
    { id: "event", name: "Event", note: "", make: () => detail(model, selected()) },
    { id: "changes", name: "Changes", note: String(page.patches.length || ""), make: () => changes(page) },
    { id: "result", name: "Result", note: "", make: () => result(page) },
    { id: "network", name: "Network", note: refused > 0 ? `${refused} refused` : "", make: () => network(model) },
    { id: "findings", name: "Findings", note: String(number || ""), make: () => findings(model) },
    { id: "budget", name: "Budget", note: "", make: () => budget(model) },
    { id: "policy", name: "Policy", note: "", make: () => policy(page) },
  ];
}

function start(page: RunPage): void {
  const model = build(page);
  let selected = 0;
  const all = tabs(model, () => selected);
  const list = eventList(model);
  const line = timeline(model, (seq) => { location.hash = `e${seq}`; });
  const bar = el("div", { class: "tabs", role: "tablist", "aria-label": "Views of the run" });
  const panel = el("div", { class: "panel", role: "tabpanel", id: "panel", tabindex: 0 });
  const eventsTab: Tab = { id: "events", name: "Events", note: "", make: () => el("div") };

  const show = (id: string): void => {
    const tab = [eventsTab, ...all].find((one) => one.id === id) ?? all[0]!;
    document.body.dataset["view"] = tab.id;
    bar.querySelectorAll<HTMLElement>("[role=tab]").forEach((one) => {
      const isShown = one.id === `tab-${tab.id}`;
      one.setAttribute("aria-selected", String(isShown));
      one.tabIndex = isShown ? 0 : -1;
      if (isShown && bar.scrollWidth > bar.clientWidth) bar.scrollLeft = one.offsetLeft - bar.clientWidth / 2 + one.clientWidth / 2;
    });
    panel.setAttribute("aria-labelledby", `tab-${tab.id}`);
    panel.replaceChildren(tab.make());
    panel.scrollTop = 0;
  };

  for (const tab of [eventsTab, ...all]) {
    const button = el("button", { role: "tab", type: "button", id: `tab-${tab.id}`, "aria-controls": "panel" }, tab.name, tab.note ? el("span", {}, tab.note) : null);
    button.addEventListener("click", () => { location.hash = tab.id; });
    bar.append(button);
  }
  bar.addEventListener("keydown", (event) => {
    const buttons = [...bar.querySelectorAll<HTMLElement>("[role=tab]")].filter((one) => one.offsetParent !== null);
    const at = buttons.indexOf(document.activeElement as HTMLElement);
    const moves: { [key: string]: number } = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: buttons.length - 1 };
    const to = moves[event.key];
    if (to === undefined || at < 0) return;
    event.preventDefault();
    const next = buttons[(to + buttons.length) % buttons.length];
    next?.focus();
    next?.click();
  });

  const follow = (): void => {
    const wanted = decodeURIComponent(location.hash.slice(1));
    const event = /^e(\d+)$/.exec(wanted);
    if (event) {
      selected = Number(event[1]);
      line.select(model.rows.find((row) => row.event.seq === selected)?.at ?? 0);
      show("event");
      list.select(selected);
    } else {
      show(wanted || "conversation");
    }
  };

  const skip = el("a", { class: "skip", href: "#panel" }, "Skip to the view");
  skip.addEventListener("click", (event) => { event.preventDefault(); panel.focus(); });
  document.body.replaceChildren(
    ...document.querySelectorAll("script"),
    skip,
    header(model),
    line.element,
    el("main", {}, el("aside", { "aria-label": "Events" }, list.element), el("div", { class: "view" }, bar, panel)),
  );
  window.onhashchange = follow;
  document.onkeydown = (event) => {
    const isTyping = event.target instanceof HTMLInputElement;
    if (event.key === "/" && !isTyping && !event.ctrlKey && !event.metaKey) {
      event.preventDefault();
      document.querySelector<HTMLInputElement>("input[type=search]")?.focus();
    }
  };
  follow();
}

const data = document.getElementById("data");
if (data) start(JSON.parse(data.textContent ?? "null") as RunPage);
else live(start);
