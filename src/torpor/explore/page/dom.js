// Small helpers. Text from a trace only ever becomes text nodes.
import { diffLines } from "./diff.js";
import { highlight } from "./highlight.js";

// An element: attributes by name (`on` has listeners), then children: elements, texts, lists.
export function h(name, attributes = {}, ...children) {
  const element = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "on") {
      for (const [event, listener] of Object.entries(value)) element.addEventListener(event, listener);
    } else if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(key, value === true ? "" : value);
    }
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined));
  return element;
}

export const svg = (name, attributes = {}, ...children) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  element.append(...children.flat(Infinity));
  return element;
};

// Text in colours; long texts are left plain.
export function code(text, language) {
  const block = h("code");
  if (text.length > 200_000) block.textContent = text;
  else block.innerHTML = highlight(text, language); // which escapes
  return h("pre", { tabindex: 0 }, block);
}

const AROUND = 3; // lines that are shown around a change

// What became of a text, by lines; of what is the same, only what is near a change.
export function changes(old, fresh) {
  const parts = diffLines(old, fresh, { maxEditLength: 5000 });
  if (!parts) return h("p", {}, "nearly all of it differs");
  if (parts.every((part) => !part.added && !part.removed)) return h("p", { class: "less" }, "they are the same");
  const same = (text, first, last) => {
    const rows = text.split("\n").slice(0, -1);
    if (rows.length <= 2 * AROUND + 1) return text;
    return `${first ? "" : `${rows.slice(0, AROUND).join("\n")}\n`}⋯ ${rows.length} lines ⋯\n${last ? "" : `${rows.slice(-AROUND).join("\n")}\n`}`;
  };
  return h("div", { class: "changes", tabindex: 0 }, parts.map(({ added, removed, value }, at) =>
    h("pre", { class: added ? "new" : removed ? "old" : "" }, added || removed ? value : same(value, at === 0, at === parts.length - 1))));
}

export function time(microseconds) {
  if (microseconds >= 1e6) return `${(microseconds / 1e6).toFixed(2)} s`;
  if (microseconds >= 1e3) return `${(microseconds / 1e3).toFixed(2)} ms`;
  return `${microseconds.toFixed(1)} µs`;
}

export const place = ({ file, line, text }) =>
  h("span", { class: "place", title: `${file}:${line}` }, `${file.split(/[\\/]/).pop()}:${line}`, " ", h("code", {}, text));

export async function fetchJson(path) {
  const answer = await fetch(path);
  if (!answer.ok) throw new Error(`${path}: ${(await answer.text()).trim()}`);
  return answer.json();
}

export async function compute(name, request) {
  const answer = await fetch(`compute/${name}`, {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(request),
  });
  if (!answer.ok) throw new Error((await answer.text()).trim());
  return answer.json();
}

// Where the pages that compute lead to: a trace's own pages are known to it alone.
export const PAGES = [["Program", "./#program"], ["Kernels", "./#kernels"], ["Time", "./#time"], ["Views", "views"], ["Expressions", "expr"]];

// The bar at the top: name and address of each page, and which one is shown.
export function bar(entries, current) {
  const links = entries.map(([name, address]) =>
    h("a", { href: address, "aria-current": name === current ? "page" : undefined }, name));
  document.getElementById("top").replaceChildren(h("strong", {}, "torpor explorer"), h("nav", {}, links));
}

// Where the field's text is wrong: the message, and the text with a mark at the character.
export function fault(text, offset, message) {
  const at = Math.min(offset, text.length);
  const wrong = text.slice(at, at + 1).trim() || " ";
  return h("div", { id: "error", role: "alert", "data-offset": offset },
    h("p", {}, message),
    h("pre", {}, text.slice(0, at), h("mark", {}, wrong), text.slice(at + 1)));
}

export const typing = (event) =>
  event.target.closest?.("input, textarea, select") || event.ctrlKey || event.metaKey || event.altKey;

// Calls `function` once its last caller has been silent for a moment; older answers are dropped.
export function debounced(action, show, moment = 120) {
  let timer = 0;
  let turn = 0;
  return (...given) => {
    clearTimeout(timer);
    timer = setTimeout(async () => {
      const mine = ++turn;
      let found;
      try {
        found = await action(...given);
      } catch (error) {
        found = { error: `the server does not answer: ${error.message}`, offset: 0 };
      }
      if (mine === turn) show(found);
    }, moment);
  };
}
