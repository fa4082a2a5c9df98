// A layout in memory and as it is seen: two drawings whose cells light up together.
import { h } from "./dom.js";

const MOST_STRIP = 1024;

// `sizes` of the axes, and for each element its offset and whether it is valid.
export function layoutOf(sizes, cells, valids, leftOut) {
  const used = cells.filter((_, at) => valids[at]);
  const low = Math.min(0, ...used);
  const high = Math.max(0, ...used);
  const readers = new Map();
  cells.forEach((offset, at) => { if (valids[at]) readers.set(offset, (readers.get(offset) ?? 0) + 1); });
  const strip = h("div", { class: "strip", "aria-label": "memory" });
  for (let offset = low; offset <= Math.min(high, low + MOST_STRIP - 1); offset++) {
    strip.append(h("span", { class: readers.has(offset) ? "cell" : "cell unused", "data-memory": offset, title: `read ${readers.get(offset) ?? 0} times` }, offset));
  }
  let at = 0;
  const nested = (axis) => {
    if (axis === sizes.length) {
      if (at >= cells.length) return null;
      const [offset, valid] = [cells[at], valids[at]];
      at++;
      return valid ? h("span", { class: "cell", "data-cell": offset, tabindex: 0 }, offset) : h("span", { class: "cell masked", "data-masked": true, title: "masked: 0" }, "·");
    }
    const parts = [];
    for (let place = 0; place < sizes[axis] && at < cells.length; place++) parts.push(nested(axis + 1));
    return h("div", { class: `axis-box ${(sizes.length - axis) % 2 ? "across" : "down"}` }, parts);
  };
  const seen = h("div", { class: "seen", "aria-label": "layout" }, nested(0));
  const element = h("div", { class: "layout" },
    h("h3", {}, `memory${high - low >= MOST_STRIP ? ` (the first ${MOST_STRIP} of ${high - low + 1})` : ""}`), strip,
    h("h3", {}, `layout (${sizes.join(", ")})`), seen,
    leftOut ? h("p", { class: "less" }, `${leftOut} more elements are not shown`) : "");
  const light = (event) => {
    const { cell, memory } = event.target.dataset ?? {};
    for (const old of element.querySelectorAll(".lit")) old.classList.remove("lit");
    const offset = cell ?? memory;
    if (offset === undefined) return;
    for (const same of element.querySelectorAll(`[data-cell="${offset}"], [data-memory="${offset}"]`)) same.classList.add("lit");
  };
  element.addEventListener("mouseover", light);
  element.addEventListener("focusin", light);
  return element;
}
