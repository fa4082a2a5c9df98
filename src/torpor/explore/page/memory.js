// Memory over time, with what is live at a moment that the pointer or the arrow keys choose.
import { h, svg, time } from "./dom.js";

const [WIDE, HIGH] = [1000, 160];

export const size = (bytes) => bytes >= 1e6 ? `${(bytes / 1e6).toFixed(1)} MB` : bytes >= 1e3 ? `${(bytes / 1e3).toFixed(1)} kB` : `${bytes} B`;

export function memory(all, link) {
  if (!all.length) return null;
  const ends = all.flatMap(({ start, end }) => [start, ...(end === null ? [] : [end])]);
  const [from, to] = [Math.min(...ends), Math.max(...ends, Math.min(...ends) + 1)];
  const changes = all.flatMap(({ bytes, start, end }) => [[start, bytes], ...(end === null ? [] : [[end, -bytes]])]).sort((one, other) => one[0] - other[0]);
  let now = 0;
  const steps = changes.map(([at, by]) => [at, now += by]);
  const most = Math.max(...steps.map(([, bytes]) => bytes), 1);
  const peak = steps.find(([, bytes]) => bytes === most)[0];
  const x = (at) => (at - from) / (to - from) * WIDE;
  const y = (bytes) => HIGH - bytes / most * (HIGH - 10);
  let path = `M0 ${HIGH}`;
  for (const [at, bytes] of steps) path += `H${x(at).toFixed(1)}V${y(bytes).toFixed(1)}`;
  const cursor = svg("line", { class: "cursor", y1: 0, y2: HIGH });
  const drawn = svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, preserveAspectRatio: "none" },
    svg("path", { class: "used", d: `${path}H${WIDE}V${HIGH}Z` }), cursor);
  const box = h("div", { class: "memory", tabindex: 0, role: "slider", "aria-label": "moment", "aria-valuemin": 0, "aria-valuemax": 1000 }, drawn);
  const told = h("div", { id: "live", "aria-live": "polite" });
  let chosen = peak;
  function show(at) {
    chosen = Math.max(from, Math.min(at, to));
    cursor.setAttribute("x1", x(chosen));
    cursor.setAttribute("x2", x(chosen));
    box.setAttribute("aria-valuenow", Math.round(x(chosen)));
    const live = all.filter(({ start, end }) => start <= chosen && (end === null || chosen < end)).sort((one, other) => other.bytes - one.bytes);
    told.replaceChildren(
      h("p", {}, `${size(live.reduce((sum, one) => sum + one.bytes, 0))} in ${live.length} buffers after ${time(chosen - from)}; at most ${size(most)}`),
      h("table", {}, h("thead", {}, h("tr", {}, ["size", "device", "made by", "read by"].map((name) => h("th", {}, name)))),
        h("tbody", {}, live.slice(0, 12).map((one) => h("tr", { "data-buffer": one.number },
          h("td", { class: "number" }, size(one.bytes)), h("td", {}, one.device),
          h("td", {}, one.writer === null ? "the program" : link(one.writer)),
          h("td", {}, one.readers.slice(0, 4).map((number) => [link(number), " "])))))),
      live.length > 12 ? h("p", { class: "less" }, `and ${live.length - 12} smaller ones`) : "");
  }
  box.addEventListener("pointermove", (event) => {
    const { left, width } = box.getBoundingClientRect();
    show(from + (event.clientX - left) / width * (to - from));
  });
  box.addEventListener("keydown", (event) => {
    const times = steps.map(([at]) => at);
    const next = { ArrowRight: times.find((at) => at > chosen), ArrowLeft: times.findLast((at) => at < chosen) };
    if (!(event.key in next)) return;
    if (next[event.key] !== undefined) show(next[event.key]);
    event.preventDefault();
    event.stopPropagation();
  });
  show(peak);
  return h("section", { id: "memory" }, h("h2", {}, "memory"), box, told,
    h("p", { class: "less" }, "Memory that schedules speak of, from its first schedule to when nobody holds it; what replays of a jit take on the way is under Programs."));
}
