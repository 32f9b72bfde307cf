// A list of runs or sessions, newest data every few seconds until the reader asks for older ones.
import { get } from "./api";
import { el, empty } from "./dom";

const REFRESH_MS = 3000;

interface Page { next?: string | null }

export function frame(title: string, ...children: Node[]): HTMLElement {
  const links = [["Runs", "/"], ["Sessions", "/sessions"]].map(([name, href]) =>
    el("a", { href, "aria-current": name === title ? "page" : null }, name ?? ""));
  return el("main", { class: "list" }, el("p", { class: "brand" }, "fullsend"), el("nav", { "aria-label": "Lists" }, ...links), el("h1", {}, title), ...children);
}

export async function list<T>(title: string, path: string, field: string, line: (entry: T) => HTMLElement, nothing: string): Promise<void> {
  const rows = el("div", { class: "runs", role: "list", "aria-label": title });
  const more = el("button", { type: "button", class: "more" }, "Show more");
  document.body.replaceChildren(frame(title, rows, more));
  let next: string | null | undefined;
  const load = async (cursor: string): Promise<HTMLElement[]> => {
    const page = await get<Page & { [name: string]: T[] }>(`${path}?limit=50${cursor}`);
    next = page.next;
    more.hidden = !next;
    return (page[field] ?? []).map((entry) => el("div", { role: "listitem" }, line(entry)));
  };
  const first = async (): Promise<void> => {
    const lines = await load("");
    rows.replaceChildren(...(lines.length > 0 ? lines : [el("div", { role: "listitem" }, empty(nothing))]));
  };
  more.addEventListener("click", () => {
    clearInterval(timer);
    void load(`&cursor=${next ?? ""}`).then((lines) => rows.append(...lines));
  });
  await first();
  const timer = setInterval(() => { if (document.visibilityState === "visible") first().catch(() => undefined); }, REFRESH_MS);
}
