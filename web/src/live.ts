// The page of `fullsend serve`: lists of runs and sessions, and one of them as it goes on.
import type { OutcomeKind, RunPage } from "./types";
import { follow, get, mayAct, post, token } from "./api";
import { costsPage } from "./costs";
import { el, empty, pill, visible } from "./dom";
import { duration, money, words } from "./format";
import { outcomeTone } from "./header";
import { frame, list, type Filter } from "./list";
import { sessionList, sessionPage } from "./session";
import { startForm } from "./start";
import { workPage } from "./work";

interface RunSummary {
  id: string; owner: string; harness: string; runtime: string; outcome?: string | null; started: string;
  duration_ms?: number | null; usd?: number | null; findings: number; refused: number;
}

/** Every outcome, so that a new one does not compile without a place in the filter. */
const OUTCOMES: { [outcome in OutcomeKind | "running"]: true } = {
  running: true, completed: true, skipped: true, no_output: true, denied: true, asked: true, invalid_output: true, agent_failed: true, timeout: true, budget: true,
  model_unavailable: true, security_stop: true, sandbox_unavailable: true, setup_failed: true, post_script_failed: true, interrupted: true, internal: true,
};
const FILTERS: Filter[] = [{ name: "outcome", label: "Outcome", words: Object.keys(OUTCOMES) }, { name: "harness", label: "Harness" }];

/** Between two drawings of a run that goes on. */
const DRAW_MS = 1000;
/** How often a run that has sent its last event is drawn until it is closed. */
const MAX_ENDING_TRIES = 60;

export function live(show: (page: RunPage) => void): void {
  const [, kind, id] = /^\/(\w*)(?:\/([0-9a-f-]+))?$/.exec(location.pathname) ?? [];
  const work = async (): Promise<void> => {
    if (kind === "runs" && id) return followRun(id, show);
    if (kind === "sessions") return id ? sessionPage(id) : sessionList();
    if (kind === "costs") return costsPage();
    if (kind === "work") return workPage();
    const above = (await mayAct()) ? startForm() : null;
    return list({ above, title: "Runs", path: "/v1/runs", field: "runs", filters: FILTERS, line, nothing: "No run is recorded yet: fullsend run makes one." });
  };
  work().catch((error: unknown) => {
    const hint = token() === "" ? " Open the link that `fullsend serve` prints: it has the token." : "";
    document.body.replaceChildren(frame("Runs", empty(`${error instanceof Error ? error.message : String(error)}.${hint}`)));
  });
}

function line(run: RunSummary): HTMLElement {
  const outcome = run.outcome ?? "running";
  const figures = [run.duration_ms ? duration(run.duration_ms) : "", run.usd ? money(run.usd) : "", run.refused ? `${run.refused} refused` : "", run.findings ? `${run.findings} findings` : ""];
  return el(
    "a",
    { href: `/runs/${run.id}` },
    el("b", {}, run.harness || run.id),
    pill(words(outcome), outcomeTone(outcome)),
    el("span", { class: "muted" }, [run.owner, run.runtime, ...figures].filter(Boolean).join(" · ")),
    el("time", {}, new Date(run.started).toLocaleString()),
  );
}

/** Draws the run, then again whenever events came, until it ends. */
async function followRun(id: string, show: (page: RunPage) => void): Promise<void> {
  const cancel = cancelButton(id);
  const isOperator = await mayAct();
  const draw = async (): Promise<RunPage> => {
    const page = await get<RunPage>(`/v1/runs/${id}/page`);
    const isFocused = document.activeElement === cancel;
    show(page);
    const back = el("a", { href: "/", class: "back" }, "All runs");
    document.querySelector(".headline")?.append(...(isOperator && page.verification.status === "running" ? [cancel] : []), back);
    if (isFocused) cancel.focus();
    return page;
  };
  const page = await draw();
  if (page.verification.status !== "running") return;
  let grown = false;
  const timer = setInterval(() => {
    if (!grown) return;
    grown = false;
    draw().catch(() => undefined);
  }, DRAW_MS);
  await follow(`/v1/runs/${id}/events`, page.events.length, () => { grown = true; });
  clearInterval(timer);
  // The runner closes the run just after its last event.
  for (let tries = 0; tries < MAX_ENDING_TRIES && (await draw()).verification.status === "running"; tries += 1) {
    await new Promise((resolve) => { setTimeout(resolve, DRAW_MS); });
  }
}

/** The first click asks, the second cancels. */
function cancelButton(id: string): HTMLButtonElement {
  const made = el("button", { type: "button", class: "cancel" }, "Cancel run");
  let isAsked = false;
  made.addEventListener("click", () => {
    if (!isAsked) {
      isAsked = true;
      made.textContent = "Cancel it now?";
      return;
    }
    made.disabled = true;
    made.textContent = "Cancelling";
    post(`/v1/runs/${id}/cancel`, {}).catch((error: unknown) => {
      isAsked = false;
      made.disabled = false;
      made.textContent = visible(`Not cancelled: ${error instanceof Error ? error.message : String(error)}`);
    });
  });
  return made;
}
