// The changes in the repository, as git's patches say them.
import { el, empty, pill } from "./dom";
import { plural } from "./format";
import type { RunPage } from "./types";

interface Line { sign: " " | "+" | "-" | "@"; text: string; before: number | null; after: number | null }
interface FileChange { name: string; note: string; added: number; removed: number; lines: Line[] }

const MOST_LINES = 2000;

export function changes(page: RunPage): HTMLElement {
  if (page.patches.length === 0) return empty("The agent changed nothing in the repository.");
  return el("div", {}, ...page.patches.map((patch) => {
    const files = parse(patch.text);
    const added = files.reduce((sum, one) => sum + one.added, 0);
    const removed = files.reduce((sum, one) => sum + one.removed, 0);
    return el(
      "section",
      { class: "patch" },
      el("h2", {}, patch.path, pill(patch.accepted ? "accepted" : "not accepted", patch.accepted ? "good" : "bad"), el("span", { class: "muted" }, `${plural(files.length, "file")}, `), el("span", { class: "added" }, `+${added}`), el("span", { class: "removed" }, `−${removed}`)),
      ...files.map((one, index) => file(one, patch.accepted && index < 20)),
    );
  }));
}

/** The body is made when it is opened first: a patch may have a thousand files. */
function file(change: FileChange, open: boolean): HTMLElement {
  const body = el("div", { class: "scroll", tabindex: 0, role: "group", "aria-label": `Changes in ${change.name}` });
  const details = el("details", { class: "file" }, el("summary", {}, el("code", {}, change.name), change.note ? el("span", { class: "muted" }, change.note) : null, el("span", { class: "added" }, `+${change.added}`), el("span", { class: "removed" }, `−${change.removed}`)), body);
  const fill = (): void => {
    if (details.open && body.childElementCount === 0) body.append(lines(change));
  };
  details.addEventListener("toggle", fill);
  details.open = open;
  fill();
  return details;
}

function lines(change: FileChange): HTMLElement {
  const rows = change.lines.slice(0, MOST_LINES).map((line) => {
    if (line.sign === "@") return el("tr", { class: "hunk" }, el("td", { colspan: 4 }, line.text));
    const tone = line.sign === "+" ? "plus" : line.sign === "-" ? "minus" : "";
    return el("tr", { class: tone }, el("td", { class: "number" }, line.before === null ? "" : String(line.before)), el("td", { class: "number" }, line.after === null ? "" : String(line.after)), el("td", { class: "sign" }, line.sign), el("td", {}, line.text));
  });
  const more = change.lines.length - MOST_LINES;
  if (more > 0) rows.push(el("tr", { class: "hunk" }, el("td", { colspan: 4 }, `${plural(more, "more line")}: fullsend runs diff prints them`)));
  return el("table", { class: "diff" }, el("tbody", {}, ...rows));
}

function parse(text: string): FileChange[] {
  const files: FileChange[] = [];
  let file: FileChange | null = null;
  let before = 0;
  let after = 0;
  let left = 0;
  let right = 0;
  for (const line of text.split("\n")) {
    const isBody = left > 0 || right > 0;
    if (!isBody && line.startsWith("diff --git ")) {
      file = { name: line.slice(11).split(" b/").at(-1) ?? line, note: "", added: 0, removed: 0, lines: [] };
      files.push(file);
    } else if (!file) {
      continue;
    } else if (!isBody && line.startsWith("@@")) {
      const at = /^@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@/.exec(line);
      if (!at) continue;
      before = Number(at[1]);
      left = Number(at[2] ?? 1);
      after = Number(at[3]);
      right = Number(at[4] ?? 1);
      file.lines.push({ sign: "@", text: line, before: null, after: null });
    } else if (isBody) {
      const sign = line[0];
      const rest = line.slice(1);
      if (sign === "+") { file.added += 1; right -= 1; file.lines.push({ sign, text: rest, before: null, after: after++ }); }
      else if (sign === "-") { file.removed += 1; left -= 1; file.lines.push({ sign, text: rest, before: before++, after: null }); }
      else if (sign !== "\\") { left -= 1; right -= 1; file.lines.push({ sign: " ", text: rest, before: before++, after: after++ }); }
    } else if (/^(new|deleted) file|^rename|^Binary|^GIT binary|^old mode|^new mode/.test(line)) {
      file.note = file.note ? `${file.note}, ${line}` : line;
    }
  }
  return files;
}
