// Elements. Text from a run is only ever the text of a node, never markup.

type Child = Node | string | null | undefined | false;
type Attributes = { [name: string]: string | number | boolean | null | undefined | ((event: never) => void) };

/** Characters that change how the text around them reads are spelled out. */
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text: string): string {
  return text.replace(HIDDEN, (one) => `\u27e8${one.charCodeAt(0).toString(16).padStart(4, "0")}\u27e9`);
}

export function el<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  return fill(document.createElement(tag), attributes, children);
}

export function svg<Tag extends keyof SVGElementTagNameMap>(
  tag: Tag,
  attributes: Attributes = {},
  ...children: Child[]
): SVGElementTagNameMap[Tag] {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill<E extends Element>(element: E, attributes: Attributes, children: Child[]): E {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (typeof value === "function") element.addEventListener(name, value as EventListener);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  append(element, ...children);
  return element;
}

export function append(element: Element, ...children: Child[]): void {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    element.append(typeof child === "string" ? document.createTextNode(visible(child)) : child);
  }
}

/** Shows what went wrong. The message may quote a caller or an agent. */
export function say(element: Element, error: unknown): void {
  element.replaceChildren();
  append(element, error instanceof Error ? error.message : String(error));
}

/** A text that keeps its lines, cut where it is long until the reader asks for the rest. */
export function block(text: string, name: string, most = 4000): HTMLElement {
  const pre = el("pre", { class: "text", tabindex: 0, role: "group", "aria-label": name });
  if (text.length <= most) {
    append(pre, text);
    return pre;
  }
  append(pre, text.slice(0, most));
  const more = el("button", { class: "more", type: "button" }, `Show all ${text.length.toLocaleString("en")} characters`);
  more.addEventListener("click", () => {
    pre.replaceChildren();
    append(pre, text);
    more.remove();
    pre.focus();
  });
  return el("div", {}, pre, more);
}

export function pill(text: string, tone: string): HTMLElement {
  return el("span", { class: `pill ${tone}` }, text);
}

export function empty(text: string): HTMLElement {
  return el("p", { class: "empty" }, text);
}

/** A table in a region that scrolls sideways on a narrow screen. */
export function table(name: string, heads: string[], rows: (Node | string)[][]): HTMLElement {
  const head = el("tr", {}, ...heads.map((text) => el("th", { scope: "col" }, text)));
  const body = rows.map((cells) =>
    el("tr", {}, ...cells.map((cell, at) => el("td", { "data-label": heads[at] ?? "" }, cell))),
  );
  return el(
    "div",
    { class: "scroll", tabindex: 0, role: "group", "aria-label": name },
    el("table", {}, el("thead", {}, head), el("tbody", {}, ...body)),
  );
}

export function section(title: string, ...children: Child[]): HTMLElement {
  return el("section", { class: "block" }, el("h2", {}, title), ...children);
}
