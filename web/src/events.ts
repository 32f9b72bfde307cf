// The list of events. Only the rows in view exist, so that fifty thousand events scroll as well as fifty. Every row is a link.
import { el } from "./dom";
import { count, since } from "./format";
import type { Kind, Model, Row } from "./model";

const ROW_HEIGHT = 36;
const MARGIN_ROWS = 10;

const FILTERS: [string, (row: Row) => boolean][] = [
  ["All", () => true],
  ["Refused", (row) => row.tone === "bad"],
  ...([["Agent", "agent"], ["Tools", "tool"], ["Model", "model"], ["Network", "network"], ["Findings", "finding"], ["Sandbox", "sandbox"]] as [string, Kind][])
    .map(([name, kind]): [string, (row: Row) => boolean] => [name, (row) => row.kind === kind]),
];

export interface EventList {
  element: HTMLElement;
  select(seq: number): void;
}

export function eventList({ rows }: Model): EventList {
  const viewport = el("div", { class: "rows", role: "list", "aria-label": "Events" });
  const height = el("div", { class: "height", role: "presentation" });
  viewport.append(height);
  const status = el("p", { class: "count", role: "status" });
  const search = el("input", { type: "search", placeholder: "Search events", "aria-label": "Search events", spellcheck: "false" });
  const filters = el("div", { class: "filters", role: "group", "aria-label": "Filter" });
  const made = new Map<number, HTMLElement>();
  let filter = FILTERS[0]![1];
  let shown = rows;
  let selected = -1;

  const draw = (): void => {
    const first = Math.max(0, Math.floor(viewport.scrollTop / ROW_HEIGHT) - MARGIN_ROWS);
    const last = Math.min(shown.length, Math.ceil((viewport.scrollTop + viewport.clientHeight) / ROW_HEIGHT) + MARGIN_ROWS);
    for (const [index, element] of made) {
      if (index < first || index >= last) {
        if (element.contains(document.activeElement)) viewport.focus();
        element.remove();
        made.delete(index);
      }
    }
    for (let index = first; index < last; index += 1) {
      if (!made.has(index)) {
        const element = line(shown[index]!, index, shown.length, selected);
        made.set(index, element);
        height.append(element);
      }
    }
  };

  const refresh = (): void => {
    const wanted = search.value.trim().toLowerCase();
    shown = rows.filter((row) => filter(row) && (wanted === "" || `${row.name} ${row.detail}`.toLowerCase().includes(wanted)));
    made.forEach((element) => element.remove());
    made.clear();
    height.style.setProperty("height", `${shown.length * ROW_HEIGHT}px`);
    viewport.scrollTop = 0;
    status.textContent = shown.length === rows.length ? `${count(rows.length)} events` : `${count(shown.length)} of ${count(rows.length)} events`;
    draw();
  };

  const reveal = (index: number): void => {
    const top = index * ROW_HEIGHT;
    if (top < viewport.scrollTop) viewport.scrollTop = top;
    else if (top + ROW_HEIGHT > viewport.scrollTop + viewport.clientHeight) viewport.scrollTop = top + ROW_HEIGHT - viewport.clientHeight;
    draw();
  };

  const center = (index: number): void => {
    const top = index * ROW_HEIGHT;
    const isInView = top >= viewport.scrollTop && top + ROW_HEIGHT <= viewport.scrollTop + viewport.clientHeight;
    if (!isInView) viewport.scrollTop = top - viewport.clientHeight / 3;
    draw();
  };

  const focus = (index: number): void => {
    const to = Math.min(shown.length - 1, Math.max(0, index));
    reveal(to);
    made.get(to)?.querySelector("a")?.focus({ preventScroll: true });
  };

  viewport.addEventListener("keydown", (event) => {
    const item = (event.target as Element).closest<HTMLElement>("[data-index]");
    const at = item ? Number(item.dataset["index"]) : 0;
    const page = Math.max(1, Math.floor(viewport.clientHeight / ROW_HEIGHT) - 1);
    const moves: { [key: string]: number } = { ArrowDown: at + 1, j: at + 1, ArrowUp: at - 1, k: at - 1, PageDown: at + page, PageUp: at - page, Home: 0, End: shown.length - 1 };
    const to = moves[event.key];
    if (to === undefined || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    focus(to);
  });

  let pending = false;
  viewport.addEventListener("scroll", () => {
    if (pending) return;
    pending = true;
    requestAnimationFrame(() => { pending = false; draw(); });
  }, { passive: true });
  search.addEventListener("input", refresh);
  new ResizeObserver(draw).observe(viewport);

  for (const [name, wanted] of FILTERS) {
    const number = rows.filter(wanted).length;
    if (number === 0) continue;
    const button = el("button", { type: "button", "aria-pressed": String(name === "All") }, name, el("span", {}, count(number)));
    button.addEventListener("click", () => {
      filter = wanted;
      filters.querySelectorAll("button").forEach((one) => one.setAttribute("aria-pressed", String(one === button)));
      refresh();
    });
    filters.append(button);
  }
  viewport.tabIndex = 0;
  refresh();
  const element = el("div", { class: "events" }, el("div", { class: "tools" }, search, filters, status), viewport);
  const select = (seq: number): void => {
    selected = seq;
    let index = shown.findIndex((row) => row.event.seq === seq);
    if (index < 0 && seq > 0) {
      filters.querySelector("button")?.click();
      search.value = "";
      refresh();
      index = shown.findIndex((row) => row.event.seq === seq);
    }
    made.forEach((one) => mark(one, seq));
    if (index >= 0) center(index);
  };
  return { element, select };
}

function mark(element: HTMLElement, selected: number): void {
  const link = element.querySelector("a");
  if (Number(element.dataset["seq"]) === selected) link?.setAttribute("aria-current", "true");
  else link?.removeAttribute("aria-current");
}

function line(row: Row, index: number, total: number, selected: number): HTMLElement {
  const detail = row.detail.length > 300 ? `${row.detail.slice(0, 300)}…` : row.detail;
  const link = el(
    "a",
    { href: `#e${row.event.seq}`, class: row.tone },
    el("time", {}, since(row.at)),
    el("i", { class: `dot ${row.tone}`, "aria-hidden": "true" }),
    el("b", {}, row.name),
    el("span", {}, detail),
  );
  const element = el("div", { role: "listitem", "aria-posinset": index + 1, "aria-setsize": total, "data-index": index, "data-seq": row.event.seq }, link);
  element.style.setProperty("transform", `translateY(${index * ROW_HEIGHT}px)`);
  mark(element, selected);
  return element;
}
