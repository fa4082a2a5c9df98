// A flame chart of what Python did: planning, compiling and its passes, one inside of the other.
import { h, time } from "./dom.js";
import { FlameChart } from "./flamechart.js";

const [HEAD, ROW, LEAST] = [96, 20, 180]; // pixels: above the rows, of a row, of a chart
const COLOURS = { trace: "#7a5fc0", schedule: "#2f7fb8", compile: "#b8562f", pass: "#c79a2b", launch: "#4a9a5b" };

// Events as a forest: one lies in that which was going on in the same thread when it began.
function forest(events, start) {
  const roots = new Map();
  const sorted = [...events].sort((one, other) => one.start - other.start || other.microseconds - one.microseconds);
  for (const event of sorted) {
    const who = `${event.process} ${event.thread}`;
    const { nodes, open } = roots.get(who) ?? roots.set(who, { nodes: [], open: [] }).get(who);
    while (open.length && open.at(-1).end <= event.start + 0.2) open.pop();
    const from = (event.start - start) / 1000;
    const end = Math.min(event.start + event.microseconds, open.at(-1)?.end ?? Infinity);
    const node = { name: `${event.phase} ${event.name}`.trim(), start: from, type: event.phase,
      duration: Math.max((end - event.start) / 1000, 0), children: [], event };
    (open.at(-1)?.node.children ?? nodes).push(node);
    open.push({ node, end });
  }
  return [...roots.values()].map(({ nodes }) => nodes);
}

// What the chart's colours are called in the style sheet.
function colours() {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return { background: of("--back"), text: of("--text"), line: of("--line") };
}

export function flames(events, choose) {
  const lasting = events.filter(({ phase, device }) => phase !== "mark" && !device);
  if (!lasting.length) return null;
  const start = events.reduce((least, event) => Math.min(least, event.start), Infinity);
  const threads = forest(lasting, start);
  return h("section", { id: "flames" }, h("h2", {}, "what the compiler did, one inside of the other"),
    h("p", { class: "less" }, "the wheel, or + and -, zoom; the arrow keys move, 0 shows all; a click tells more"),
    threads.map((nodes, number) => chart(nodes, number, choose)));
}

const depth = (nodes) => nodes.length ? 1 + nodes.reduce((most, node) => Math.max(most, depth(node.children)), 0) : 0;

function chart(nodes, number, choose) {
  const told = h("div", { class: "about-node", hidden: true, role: "status" });
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "flame chart", "data-flames": number });
  const box = h("div", { class: "flames" }, canvas);
  const first = nodes[0].start;
  const last = nodes.reduce((end, node) => Math.max(end, node.start + node.duration), first);
  let [from, to] = [first, last];
  const high = Math.max(HEAD + ROW * depth(nodes), LEAST);
  let shown = null;

  function show() {
    const { background, text, line } = colours();
    const font = "12px sans-serif";
    const main = { backgroundColor: background, fontColor: text, font, headerColor: background, headerStrokeColor: line, tooltipBackgroundColor: background, tooltipHeaderFontColor: text, tooltipBodyFontColor: text, blockHeight: 18 };
    const grid = { font: "11px sans-serif", fontColor: text };
    canvas.width = box.clientWidth;
    canvas.height = high;
    shown = new FlameChart({ canvas, data: nodes, colors: COLOURS, settings: {
      hotkeys: {}, options: { timeUnits: "ms" },
      styles: { main, timeGrid: { color: line }, timeGridPlugin: grid, timeframeSelectorPlugin: { ...grid, backgroundColor: background, overlayColor: "rgba(128,128,128,0.35)", bottomLineColor: line }, togglePlugin: { color: background, strokeColor: line, fontColor: text, triangleColor: text, dotsColor: text } },
    } });
    shown.resize(box.clientWidth, high);
    shown.on("select", (chosen) => tell(chosen?.node?.source ?? chosen?.source));
  }

  function tell(node) {
    told.hidden = !node;
    if (!node) return;
    const { event } = node;
    const kernel = event.kernel === undefined ? "" : h("button", { on: { click: () => choose(event.kernel) } }, "show the kernel");
    told.replaceChildren(h("b", {}, node.name), ` ${time(event.microseconds)} `, event.why ?? "", " ", h("code", {}, event.line ?? ""), " ", kernel);
  }

  function view(low, high) {
    const span = Math.min(Math.max(high - low, 0.001), last - first);
    from = Math.max(first, Math.min(low, last - span));
    to = from + span;
    canvas.dataset.span = span;
    shown.setZoom(from, to);
  }

  canvas.addEventListener("keydown", (event) => {
    const span = to - from;
    const action = { "+": () => view(from + span / 4, to - span / 4), "=": () => view(from + span / 4, to - span / 4),
      "-": () => view(from - span / 2, to + span / 2), 0: () => view(first, last),
      ArrowRight: () => view(from + span / 4, to + span / 4), ArrowLeft: () => view(from - span / 4, to - span / 4) }[event.key];
    if (!action || !shown) return;
    action();
    event.preventDefault();
    event.stopPropagation();
  });
  new ResizeObserver(() => {
    if (!box.clientWidth) return;
    if (shown) shown.resize(box.clientWidth, high);
    else show();
  }).observe(box);
  return h("div", {}, box, told);
}
