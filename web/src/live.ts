// The page of `fullsend serve`: a list of runs, and one run as it goes on. The token comes with the link and stays in this tab.
import type { RunPage } from "./types";
import { el, empty, pill } from "./dom";
import { duration, money, words } from "./format";
import { outcomeTone } from "./header";

interface RunSummary {
  id: string; owner: string; harness: string; runtime: string; outcome?: string | null; started: string;
  duration_ms?: number | null; usd?: number | null; findings: number; refused: number;
}
interface RunList { runs: RunSummary[]; next?: string | null }

/** Between two looks at a list, and between two drawings of a run that goes on. */
const LIST_MS = 3000;
const DRAW_MS = 1000;

function token(): string {
  const given = /^#token=([\w-]+)$/.exec(location.hash)?.[1];
  if (given) {
    sessionStorage.setItem("token", given);
    history.replaceState(null, "", location.pathname);
  }
  return sessionStorage.getItem("token") ?? "";
}

async function ask(path: string, more: { [name: string]: string } = {}): Promise<Response> {
  const response = await fetch(path, { headers: { Authorization: `Bearer ${token()}`, ...more }, cache: "no-store" });
  if (response.ok) return response;
  const problem = (await response.json().catch(() => ({}))) as { detail?: string };
  throw new Error(problem.detail ?? `the server answered ${response.status}`);
}

export function live(show: (page: RunPage) => void): void {
  const run = /^\/runs\/([0-9a-f-]+)$/.exec(location.pathname)?.[1];
  const work = run ? follow(run, show) : list();
  work.catch((error: unknown) => {
    const hint = token() === "" ? " Open the link that `fullsend serve` prints: it has the token." : "";
    document.body.replaceChildren(frame(empty(`${error instanceof Error ? error.message : String(error)}.${hint}`)));
  });
}

function frame(...children: Node[]): HTMLElement {
  return el("main", { class: "list" }, el("p", { class: "brand" }, "fullsend", el("span", {}, " runs")), el("h1", {}, "Runs"), ...children);
}

async function list(): Promise<void> {
  const rows = el("div", { class: "runs", role: "list", "aria-label": "Runs" });
  const more = el("button", { type: "button", class: "more" }, "Show older runs");
  document.body.replaceChildren(frame(rows, more));
  let next: string | null | undefined;
  const first = async (): Promise<void> => {
    const page = (await (await ask("/v1/runs?limit=50")).json()) as RunList;
    next = page.next;
    rows.replaceChildren(...(page.runs.length > 0 ? page.runs.map(line) : [empty("No run is recorded yet: fullsend run makes one.")]));
    more.hidden = !next;
  };
  more.addEventListener("click", () => {
    void ask(`/v1/runs?limit=50&cursor=${next ?? ""}`).then(async (response) => {
      const page = (await response.json()) as RunList;
      next = page.next;
      rows.append(...page.runs.map(line));
      more.hidden = !next;
      clearInterval(timer);
    });
  });
  await first();
  const timer = setInterval(() => { if (document.visibilityState === "visible") first().catch(() => undefined); }, LIST_MS);
}

function line(run: RunSummary): HTMLElement {
  const outcome = run.outcome ?? "running";
  const figures = [run.duration_ms ? duration(run.duration_ms) : "", run.usd ? money(run.usd) : "", run.refused ? `${run.refused} refused` : "", run.findings ? `${run.findings} findings` : ""];
  return el(
    "div",
    { role: "listitem" },
    el("a", { href: `/runs/${run.id}` }, el("b", {}, run.harness || run.id), pill(words(outcome), outcomeTone(outcome)), el("span", { class: "muted" }, [run.owner, run.runtime, ...figures].filter(Boolean).join(" · ")), el("time", {}, new Date(run.started).toLocaleString())),
  );
}

/** Draws the run, then again whenever events came, until it ends. */
async function follow(id: string, show: (page: RunPage) => void): Promise<void> {
  const draw = async (): Promise<RunPage> => {
    const page = (await (await ask(`/v1/runs/${id}/page`)).json()) as RunPage;
    show(page);
    return page;
  };
  let page = await draw();
  while (page.verification.status === "running") {
    const response = await ask(`/v1/runs/${id}/events`, { Accept: "text/event-stream", "Last-Event-ID": String(page.events.length) });
    const reader = response.body?.getReader();
    let ended = false;
    while (reader && !ended) {
      ended = (await reader.read()).done;
      await new Promise((resolve) => setTimeout(resolve, DRAW_MS));
      page = await draw();
      if (page.verification.status !== "running") break;
    }
    await reader?.cancel();
    if (!reader) return;
  }
}
