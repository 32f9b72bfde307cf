// The form with which an operator starts a run: a harness, what the agent is asked, and files for it to read.
import { post } from "./api";
import { el, say } from "./dom";

/** Of all files together, as the server takes them. */
const MAX_BYTES = 400 << 10;

export function startForm(): HTMLElement {
  const harness = el("input", { id: "start-harness", name: "harness", required: true, autocomplete: "off", placeholder: "such as triage" });
  const prompt = el("textarea", { id: "start-prompt", rows: 2, placeholder: "What the harness says" });
  const files = el("input", { id: "start-files", type: "file", multiple: true });
  const problem = el("p", { class: "problem", role: "alert" });
  const send = el("button", { type: "submit", class: "act main" }, "Start");
  const field = (label: string, input: HTMLElement): HTMLElement => el("div", { class: "field" }, el("label", { for: input.id }, label), input);
  const form = el("form", {}, field("Harness", harness), field("Prompt", prompt), field("Files to read", files), problem, send);
  const start = async (): Promise<void> => {
    const chosen = [...(files.files ?? [])];
    if (chosen.reduce((sum, file) => sum + file.size, 0) > MAX_BYTES) throw new Error("the files are too large: 400 KB together");
    const inputs = await Promise.all(chosen.map(async (file) => ({ name: file.name, content: await file.text() })));
    const { id } = await post<{ id: string }>("/v1/runs", { harness: harness.value.trim(), prompt: prompt.value || null, inputs });
    location.assign(`/runs/${id}`);
  };
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    problem.textContent = "";
    send.disabled = true;
    start().catch((error: unknown) => {
      send.disabled = false;
      say(problem, error);
    });
  });
  return el("details", { class: "start" }, el("summary", {}, "Start a run"), form);
}
