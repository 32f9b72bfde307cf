// A list of runs or sessions with filters, newest data every few seconds until the reader asks for older ones. The filters
// stand in the address, so that a filtered list can be linked.
import { get } from "./api";
import { el, empty } from "./dom";
import { words } from "./format";

const REFRESH_MS = 3000;
const PLACES: [string, string][] = [["Runs", "/"], ["Sessions", "/sessions"], ["Work", "/work"], ["Costs", "/costs"]];

interface Page { next?: string | null }

/** What a reader can narrow a list by: one of some words, or a text. */
export interface Filter { name: string; label: string; words?: string[] }

interface Listing<T> { title: string; path: string; field: string; filters: Filter[]; line: (entry: T) => HTMLElement; nothing: string; above?: HTMLElement | null }

export function frame(title: string, ...children: Node[]): HTMLElement {
  // One session is a place among the sessions.
  const current = (name: string): string | null => (name === title ? "page" : name === `${title}s` ? "true" : null);
  const links = PLACES.map(([name, href]) => el("a", { href, "aria-current": current(name) }, name));
  const head = el("div", { class: "head" }, el("p", { class: "brand" }, "fullsend"), el("nav", { "aria-label": "Lists" }, ...links));
  return el("main", { class: "list" }, head, el("h1", {}, title), ...children);
}

export async function list<T>({ title, path, field, filters, line, nothing, above }: Listing<T>): Promise<void> {
  const rows = el("div", { class: "runs", role: "list", "aria-label": title });
  const more = el("button", { type: "button", class: "more" }, "Show more");
  const asked = new URLSearchParams(location.search);
  let next: string | null | undefined;
  const load = async (cursor: string): Promise<HTMLElement[]> => {
    const wanted = filters.map(({ name }) => asked.get(name) && `&${name}=${encodeURIComponent(asked.get(name) ?? "")}`);
    const page = await get<Page & { [name: string]: T[] }>(`${path}?limit=50${cursor}${wanted.filter(Boolean).join("")}`);
    next = page.next;
    more.hidden = !next;
    return (page[field] ?? []).map((entry) => el("div", { role: "listitem" }, line(entry)));
  };
  const first = async (): Promise<void> => {
    const lines = await load("");
    const none = asked.size > 0 ? `Nothing fits. ${next ? "Older entries may: show more." : ""}` : nothing;
    rows.replaceChildren(...(lines.length > 0 ? lines : [el("div", { role: "listitem" }, empty(none))]));
  };
  let timer = 0;
  const restart = async (): Promise<void> => {
    clearInterval(timer);
    await first();
    timer = setInterval(() => { if (document.visibilityState === "visible") first().catch(() => undefined); }, REFRESH_MS);
  };
  const narrow = (name: string, value: string): void => {
    if (value) asked.set(name, value);
    else asked.delete(name);
    history.replaceState(null, "", asked.size > 0 ? `?${asked}` : location.pathname);
    restart().catch(() => undefined);
  };
  more.addEventListener("click", () => {
    clearInterval(timer);
    void load(`&cursor=${next ?? ""}`).then((lines) => rows.append(...lines));
  });
  document.body.replaceChildren(frame(title, ...(above ? [above] : []), filterBar(filters, asked, narrow), rows, more));
  await restart();
}

function filterBar(filters: Filter[], asked: URLSearchParams, narrow: (name: string, value: string) => void): HTMLElement {
  const fields = filters.map(({ name, label, words: known }) => {
    const value = asked.get(name) ?? "";
    if (!known) {
      const input = el("input", { type: "search", value, placeholder: "any" });
      input.addEventListener("change", () => narrow(name, input.value.trim()));
      return el("label", {}, label, input);
    }
    const choice = el("select", {}, el("option", { value: "" }, "any"), ...known.map((word) => el("option", { value: word, selected: word === value }, words(word))));
    choice.addEventListener("change", () => narrow(name, choice.value));
    return el("label", {}, label, choice);
  });
  return el("div", { class: "narrow", role: "search", "aria-label": "Filters" }, ...fields);
}
