// A flame chart of where time went: planning, compiling and its passes, one inside of the other, all
// that are alike together. When each happened is in the timeline.
import { h, time } from "./dom.js";
import { FlameChart } from "./flamechart.js";

const [HEAD, ROW, LEAST] = [96, 20, 180]; // pixels: above the rows, of a row, of a chart
const OPT = /^[A-Z]+ /; // a pass that applies one
const MANY = new Set(["compile", "launch"]); // phases of one kernel, or of one graph
const COLOURS = { trace: "#7a5fc0", schedule: "#2f7fb8", compile: "#b8562f", pass: "#c79a2b", launch: "#4a9a5b" };

// Events as a forest: one lies in that which was going on in the same thread when it began.
function forest(events) {
  const threads = new Map();
  const sorted = [...events].sort((one, other) => one.start - other.start || other.microseconds - one.microseconds);
  for (const event of sorted) {
    const who = `${event.process} ${event.thread}`;
    const { nodes, open } = threads.get(who) ?? threads.set(who, { nodes: [], open: [] }).get(who);
    while (open.length && open.at(-1).end <= event.start + 0.2) open.pop();
    const end = Math.min(event.start + event.microseconds, open.at(-1)?.end ?? Infinity);
    const node = { event, took: Math.max((end - event.start) / 1000, 0), children: [] };
    (open.at(-1)?.node.children ?? nodes).push(node);
    open.push({ node, end });
  }
  return [...threads.values()].flatMap(({ nodes }) => nodes);
}

// What events of a kind are called: those of one kernel alike, whatever its name and its opts.
function kind({ phase, name }) {
  if (phase === "pass") return OPT.test(name) ? "opts" : name;
  return MANY.has(phase) ? phase : `${phase} ${name}`.trim();
}

// Equal phases in the same place are one block, as wide as they took in all; the widest come first.
function summed(nodes, start) {
  const alike = new Map();
  for (const node of nodes) {
    const key = kind(node.event);
    alike.set(key, [...(alike.get(key) ?? []), node]);
  }
  const took = (some) => some.reduce((all, node) => all + node.took, 0);
  const groups = [...alike].sort(([, some], [, others]) => took(others) - took(some));
  return groups.map(([name, some]) => {
    const block = { name: some.length > 1 ? `${name} × ${some.length}` : name, start, duration: took(some),
      type: some[0].event.phase, children: summed(some.flatMap(({ children }) => children), start),
      longest: some.reduce((most, node) => (node.took > most.took ? node : most)) };
    start += block.duration;
    return block;
  });
}

// What the chart's colours are called in the style sheet.
function colours() {
  const of = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
  return { background: of("--back"), text: of("--text"), line: of("--line") };
}

export function flames(events, choose) {
  const lasting = events.filter(({ phase, device }) => phase !== "mark" && !device);
  if (!lasting.length) return null;
  return h("section", { id: "flames" }, h("h2", {}, "where the compiler's time went"),
    h("p", { class: "less" }, "equal phases together, those of processes that help too; the wheel, or + and -, zoom; the arrow keys move, 0 shows all; a click tells more"),
    chart(summed(forest(lasting), 0), choose));
}

const depth = (nodes) => nodes.length ? 1 + nodes.reduce((most, node) => Math.max(most, depth(node.children)), 0) : 0;

function chart(nodes, choose) {
  const told = h("div", { class: "about-node", hidden: true, role: "status" });
  const canvas = h("canvas", { tabindex: 0, role: "img", "aria-label": "flame chart" });
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
      styles: { main, timeGrid: { color: line }, timeGridPlugin: grid, timeframeSelectorPlugin: { ...grid, backgroundColor: background, overlayColor: "rgba(128,128,128,0.35)", graphFillColor: "rgba(128,128,128,0.4)", graphStrokeColor: line, bottomLineColor: line }, togglePlugin: { color: background, strokeColor: line, fontColor: text, triangleColor: text, dotsColor: text } },
    } });
    shown.resize(box.clientWidth, high);
    shown.on("select", (chosen) => tell(chosen?.node?.source ?? chosen?.source));
  }

  function tell(node) {
    told.hidden = !node;
    if (!node) return;
    const { event, took } = node.longest;
    const kernel = event.kernel === undefined ? "" : h("button", { on: { click: () => choose(event.kernel) } }, "show the kernel");
    const longest = node.children.length || took < node.duration ? ["; the longest ", h("b", {}, `${event.phase} ${event.name}`.trim()), ` ${time(took * 1000)} `] : [" "];
    told.replaceChildren(h("b", {}, node.name), ` ${time(node.duration * 1000)}`, ...longest, event.why ?? "", " ", h("code", {}, event.line ?? ""), " ", kernel);
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
