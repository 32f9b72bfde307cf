// The timeline: one lane for the steps, one for each attempt and sub-agent, one each for network and findings. Spans that
// would be drawn on the same pixels become one. The list of events says the same to who cannot see it.
import { el } from "./dom";
import { duration } from "./format";
import type { Model, Span } from "./model";

const LABEL_WIDTH = 112;

export interface Timeline {
  element: HTMLElement;
  select(at: number): void;
}

export function timeline(model: Model, open: (seq: number) => void): Timeline {
  const lanes = el("div", { class: "lanes", "aria-hidden": "true" });
  const cursor = el("div", { class: "cursor", "aria-hidden": "true" });
  const tip = el("div", { class: "tip", "aria-hidden": "true", hidden: true });
  const summary = `Timeline of ${duration(model.length)} in ${model.lanes.length} lanes: ${model.lanes.join(", ")}. The list of events has every entry.`;
  const element = el("section", { class: "timeline", "aria-label": "Timeline" }, el("p", { class: "hidden" }, summary), lanes, cursor, tip);
  let selected = 0;
  const place = (ms: number): number => ms / model.length;

  const draw = (): void => {
    const width = Math.max(120, element.clientWidth - LABEL_WIDTH - 16);
    lanes.replaceChildren(axis(model.length, width), ...model.lanes.map((name) => lane(name, model.spans, model.length, width)));
    move();
  };
  const move = (): void => {
    const width = Math.max(120, element.clientWidth - LABEL_WIDTH - 16);
    cursor.style.setProperty("left", `${LABEL_WIDTH + place(selected) * width}px`);
  };

  lanes.addEventListener("click", (event) => {
    const bar = (event.target as Element).closest<HTMLElement>("[data-seq]");
    if (bar) open(Number(bar.dataset["seq"]));
  });
  lanes.addEventListener("pointermove", (event) => {
    const bar = (event.target as Element).closest<HTMLElement>("[data-name]");
    tip.hidden = !bar;
    if (!bar) return;
    tip.textContent = bar.dataset["name"] ?? "";
    const box = element.getBoundingClientRect();
    tip.style.setProperty("left", `${Math.min(event.clientX - box.left + 10, box.width - 220)}px`);
    tip.style.setProperty("top", `${event.clientY - box.top + 16}px`);
  });
  lanes.addEventListener("pointerleave", () => { tip.hidden = true; });
  new ResizeObserver(draw).observe(element);
  return { element, select: (at) => { selected = at; move(); } };
}

function axis(length: number, width: number): HTMLElement {
  const wanted = Math.max(2, Math.floor(width / 110));
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10_000, 15_000, 30_000, 60_000, 120_000, 300_000, 600_000, 1_800_000, 3_600_000, 7_200_000, 21_600_000, 86_400_000];
  const step = steps.find((one) => length / one <= wanted) ?? length;
  const ticks = [];
  for (let at = 0; at <= length; at += step) {
    const tick = el("span", {}, at === 0 ? "0" : duration(at).replace(/\.0+ s/, " s").replace(" 0 s", ""));
    tick.style.setProperty("left", `${(at / length) * 100}%`);
    if (at / length < 0.96) ticks.push(tick);
  }
  return el("div", { class: "lane axis" }, el("span", { class: "label" }), el("div", { class: "track" }, ...ticks));
}

function lane(name: string, all: Span[], length: number, width: number): HTMLElement {
  const track = el("div", { class: "track" });
  for (const span of merged(all.filter((one) => one.lane === name), length, width)) {
    const bar = el("i", { class: `bar ${span.kind} ${span.tone}`, "data-seq": span.seq, "data-name": span.name });
    bar.style.setProperty("left", `${span.left}px`);
    bar.style.setProperty("width", `${span.width}px`);
    if (span.width > 46 && span.kind !== "turn") {
      bar.textContent = span.name.split(/[\s,]/)[0] ?? "";
      bar.classList.add("named");
    }
    track.append(bar);
  }
  return el("div", { class: "lane" }, el("span", { class: "label" }, name), track);
}

interface Bar extends Span { left: number; width: number }

/** Neighbours on the same pixels become one bar; its tone is the worst of them. */
function merged(spans: Span[], length: number, width: number): Bar[] {
  const worse = ["plain", "info", "good", "warn", "bad"];
  const bars: Bar[] = [];
  const last = new Map<string, Bar>();
  const counts = new Map<Bar, number>();
  for (const span of [...spans].sort((one, other) => one.start - other.start)) {
    const left = (span.start / length) * width;
    const size = Math.max(span.kind === "mark" ? 6 : 3, ((span.end - span.start) / length) * width);
    const before = last.get(span.kind);
    if (before && size <= 6 && before.width <= 6 && left < before.left + before.width) {
      const number = (counts.get(before) ?? 1) + 1;
      counts.set(before, number);
      if (worse.indexOf(span.tone) > worse.indexOf(before.tone)) Object.assign(before, { tone: span.tone, seq: span.seq });
      before.name = `${number} events`;
      continue;
    }
    const bar = { ...span, left, width: size };
    last.set(span.kind, bar);
    bars.push(bar);
  }
  return bars;
}
