// The page of a trace: the program's lines and graphs, kernels, rewrites, and when what happened.
import { bar, code, fetchJson, h, place, time, typing } from "./dom.js";
import { compiler } from "./compile.js";
import { flames } from "./flames.js";
import { glance, toLine } from "./glance.js";
import { drawGraph } from "./graph.js";
import { memory } from "./memory.js";
import { compiled, programs } from "./programs.js";
import { roofline } from "./roofline.js";
import { stepper } from "./steps.js";
import { timeline } from "./timeline.js";

const main = document.getElementById("main");
const kernels = new Map(); // what has been fetched, by number
const tabs = () => ["overview", "linear", ...(index.static ? [] : ["assembly", "opts"]), "graph", "rewrites"];
let index = null;
let arrows = null; // who steps, if somebody does

const pages = () => [
  ["Program", "#program"], ["Kernels", "#kernels"],
  ...(index.scheduling ? [["Scheduling", "#scheduling"]] : []), ...(compiled(index.events).length || index.jits.length ? [["Programs", "#programs"]] : []), ["Time", "#time"],
  ...(index.static ? [] : [["Views", "views"], ["Expressions", "expr"]]),
];

const address = (number, tab = "overview", step) =>
  `#kernels/${number}/${tab}${step === undefined ? "" : `/${step}`}`;
const go = (number) => { location.hash = address(number); };

// What a kernel is called: `NAME#2` is the second of that name, as in the terminal.
function named({ number, name }) {
  const before = index.kernels.filter((one) => one.number < number && one.name === name).length;
  return name ? `${name}${before ? `#${before + 1}` : ""}` : `kernel ${number}`;
}
const kernelLink = (number) => h("a", { class: "kernel-link", href: address(number) }, named(index.kernels[number]));

async function kernel(number) {
  if (!kernels.has(number)) kernels.set(number, await fetchJson(`data/kernel-${number}.json`));
  return kernels.get(number);
}

// --- the program ---------------------------------------------------------------------------------
const MOST_LINKS = 6;

// Links to kernels, those that took longest first; of many, the rest opens by a click.
function links(numbers) {
  const sorted = [...numbers].sort((one, other) => index.kernels[other].microseconds - index.kernels[one].microseconds);
  const all = (some) => some.map((number) => [kernelLink(number), " "]);
  const rest = sorted.slice(MOST_LINKS);
  return [all(sorted.slice(0, MOST_LINKS)), rest.length ? h("details", {}, h("summary", {}, `and ${rest.length} more`), all(rest)) : null];
}

// The lines of a file: all of it where it was recorded, else those that made something.
function linesOf(file) {
  if (!file.text) return file.lines;
  const known = new Map(file.lines.map((one) => [one.line, one]));
  return file.text.replace(/\n$/, "").split("\n").map((text, at) => ({
    kernels: [], microseconds: 0, ...known.get(at + 1), line: at + 1, text, silent: !known.has(at + 1),
  }));
}

const sameText = (one, other) => one.file === other.file && one.line === other.line && one.text === other.text;
const sameLine = (one, other) => one.file === other.file && one.line === other.line;

// What is known of a node of a graph: its line, and the kernels that compute what stands there.
function aboutNode(graph, number) {
  const [op, dtype, , arg, text] = graph.nodes[number];
  const at = graph.lines[number];
  const by = (same) => at ? index.kernels.filter((one) => one.places.some((place) => same(place, at))).map((one) => one.number) : [];
  const exact = by(sameText);
  const made = exact.length ? exact : by(sameLine);
  return h("div", { class: "about-node", role: "status" }, h("b", {}, `${op} ${dtype} ${arg}`), " ", h("code", {}, text), h("br"),
    at ? ["line ", h("a", { href: toLine(at) }, place(at)), h("br")] : "of no line of the program; ",
    made.length ? ["computed by ", links(made)] : at ? "no kernel of its own: it is part of others, or needs none" : "");
}

// `chosen` is a line, or the number of a kernel whose nodes are marked.
function showProgram(chosen, kernel) {
  const most = Math.max(...index.files.flatMap((file) => file.lines.map((line) => line.microseconds)));
  const rows = (file) => linesOf(file).map(({ line, text, kernels: made, microseconds, silent }) =>
    h("tr", { "data-line": line, class: [`${file.file}:${line}` === chosen ? "current" : "", silent ? "silent" : ""].join(" ") },
      h("td", { class: "number" }, line),
      h("td", {}, code(text || " ", "python")),
      h("td", {}, links(made)),
      h("td", { class: "number" }, microseconds ? [h("meter", { min: 0, max: most, value: microseconds, "aria-hidden": "true" }), " ", time(microseconds)] : "")));
  const files = index.files.map((file) => h("section", {},
    h("h2", {}, file.file),
    h("table", { class: "lines" },
      h("thead", {}, h("tr", {}, h("th", {}, "line"), h("th", {}, ""), h("th", {}, "computed by"), h("th", {}, "time"))),
      h("tbody", {}, rows(file)))));
  const became = schedule(); // laid out first, so that what comes below it stays where it is
  let marked = false;
  const sizes = index.graphs.map((graph) => Object.keys(graph.nodes).length);
  const largest = sizes.indexOf(Math.max(...sizes));
  const graphs = index.graphs.map((graph, number) => {
    const about = (node) => {
      const at = graph.lines[node];
      return at ? `${at.file}:${at.line}: ${at.text}` : "";
    };
    const told = h("div");
    const choose = (node) => told.replaceChildren(aboutNode(graph, node));
    const places = kernel === undefined ? [] : index.kernels[kernel].places;
    const nodesOf = (same) => Object.keys(graph.lines).map(Number).filter((node) => places.some((one) => same(one, graph.lines[node])));
    const exact = nodesOf(sameText);
    const mark = new Set(exact.length ? exact : nodesOf(sameLine));
    const draw = () => h("div", {}, drawGraph(graph.nodes, [graph.root], { about, choose, mark, regions: graph.regions, reveal: kernel !== undefined }), told);
    const title = `what was asked for: graph ${number + 1} of ${index.graphs.length}, ${sizes[number]} nodes`;
    const first = kernel === undefined ? number === largest : mark.size > 0 && !marked;
    marked ||= mark.size > 0;
    const details = h("details", { open: first }, h("summary", {}, title), first ? draw() : null);
    details.addEventListener("toggle", () => { if (details.open && details.childElementCount === 1) details.append(draw()); });
    return details;
  });
  main.replaceChildren(...(files.length + graphs.length ? [...files, index.kernels.length ? became : "", ...graphs] : [empty()]));
  main.querySelector("tr.current")?.scrollIntoView({ block: "center" });
}

// What the graphs became: each kernel with why it is one, from those that write to those that read.
function schedule() {
  const writers = index.kernels.map(() => []);
  for (const { number, readers } of index.kernels) for (const reader of readers) writers[reader].push(number);
  const nodes = Object.fromEntries(index.kernels.map((one) => [one.number,
    [one.name || `kernel ${one.number}`, one.reasons.join(", "), writers[one.number], one.launches ? time(one.microseconds) : "", one.places.map(({ line, text }) => `${line}: ${text}`).join("\n")]]));
  const ends = index.kernels.filter(({ readers }) => !readers.length).map(({ number }) => number);
  return h("section", { id: "schedule" }, h("h2", {}, "what they became: kernels, and why each is one"),
    drawGraph(nodes, ends.length ? ends : [0], { choose: go }));
}

const empty = () => h("p", {}, "Nothing was recorded.");

// --- kernels -------------------------------------------------------------------------------------
function list(current) {
  const row = (one) => h("a", {
    href: address(one.number), "data-kernel": one.name, "data-number": one.number, class: "row",
    "aria-current": one.number === current ? "true" : undefined,
  },
  h("span", { class: "name" }, one.name || "(not made)"),
  h("span", { class: "time" }, one.launches ? time(one.microseconds) : ""),
  h("span", { class: "why" }, one.reasons.join(", ")),
  one.places.length ? place(one.places[0]) : null);
  const rows = h("div", { class: "rows" }, index.kernels.map(row));
  const byTime = h("input", { type: "checkbox", id: "by-time", on: { change: () => {
    const order = [...rows.children].sort((one, other) => byTime.checked
      ? index.kernels[other.dataset.number].microseconds - index.kernels[one.dataset.number].microseconds
      : one.dataset.number - other.dataset.number);
    rows.replaceChildren(...order);
  } } });
  const filter = h("input", {
    type: "search", placeholder: "filter: name, line, reason  ( / )", "aria-label": "filter kernels", id: "filter",
    on: { input: () => {
      const wanted = filter.value.toLowerCase();
      for (const one of rows.children) one.hidden = !one.textContent.toLowerCase().includes(wanted);
    } },
  });
  return h("aside", { "aria-label": "kernels" }, filter, h("label", { class: "less" }, byTime, " longest first"), rows);
}

async function showKernels(number, tab, step, first = false) {
  if (!index.kernels.length) {
    main.className = "";
    return main.replaceChildren(index.errors.length ? glance(index, kernelLink, go) : empty());
  }
  const known = main.querySelector("aside");
  const chosen = Math.min(number ?? 0, index.kernels.length - 1);
  const detail = h("article", { id: "kernel" });
  if (known && main.className === "split") {
    for (const row of known.querySelectorAll(".row")) {
      if (Number(row.dataset.number) === chosen) row.setAttribute("aria-current", "true");
      else row.removeAttribute("aria-current");
    }
    main.replaceChildren(known, detail);
  } else main.replaceChildren(list(chosen), detail);
  main.className = "split";
  main.querySelector(".row[aria-current]")?.scrollIntoView({ block: "nearest" });
  const stepTo = (other, at) => { location.hash = other === null ? `#scheduling/${at}` : address(other, "rewrites", at); };
  const before = first ? [glance(index, kernelLink, stepTo)] : [];
  detail.replaceChildren(...before); // what is known already, at once
  const one = await kernel(chosen);
  const sections = h("nav", { class: "tabs", "aria-label": "of this kernel" }, tabs().map((name) =>
    h("a", { href: address(chosen, name), "aria-current": name === tab ? "page" : undefined },
      name === "rewrites" ? `rewrites (${one.steps.steps.length})` : name)));
  detail.replaceChildren(...before, h("h1", {}, one.name || "(not made)", " ", h("small", {}, one.device)), sections, shown(one, tab, step));
}

function shown(one, tab, step) {
  if (tab === "linear") return linear(one);
  if (tab === "graph") return drawGraph(one.nodes, [one.ast]);
  if (tab === "assembly" || tab === "opts") return compiler(one, tab === "opts" ? "both" : tab);
  if (tab === "rewrites") {
    const view = stepper(one, step ?? 0, (number) => history.replaceState(null, "", address(one.number, "rewrites", number)), index.static ? null : { kernel: one.number });
    arrows = view.move;
    return view.element;
  }
  return overview(one);
}

const linear = (one) => one.linear.length
  ? h("ol", { class: "linear", start: 0 }, one.linear.map(({ depth, op, text }) =>
    h("li", { "data-op": op, class: `depth-${Math.min(depth, 12)}` }, text)))
  : h("p", {}, "It was not compiled while this was recorded.");

function overview(one) {
  const items = one.items.map(({ reason, says, lines, parameters }) => h("li", {},
    h("b", {}, reason), says ? `: ${says}` : "", h("br"),
    lines.map((line) => [h("code", {}, line), h("br")]),
    h("span", { class: "less" }, `memory: ${parameters.join(", ")}`)));
  const kinds = [...new Set(one.axes.map((axis) => axis.kind))];
  const chip = (kind, ...text) => h("span", { class: `axis ${kind.toLowerCase()}`, "data-axis": kind }, ...text);
  return h("div", {},
    h("dl", {},
      h("dt", {}, "a kernel of its own because"), h("dd", {}, h("ul", { id: "reasons" }, items)),
      h("dt", {}, "lines"), h("dd", {}, one.places.map((at) => [h("a", { href: toLine(at) }, place(at)), h("br")]), h("a", { id: "to-graph", href: `#graph/${one.number}` }, "where it is in the graph of tensors")),
      one.readers.length ? [h("dt", {}, "read by"), h("dd", { id: "readers" }, one.readers.map((number) => [kernelLink(number), " ", ...index.kernels[number].places.slice(0, 1).map(place), h("br")]))] : null,
      one.launches ? [h("dt", {}, "asked for at"), h("dd", { id: "asked" }, one.asked.line ? h("a", { href: toLine(one.asked) }, place(one.asked)) : "no line of the program")] : null,
      h("dt", {}, "opts"), h("dd", {}, one.opts.length ? one.opts.map((opt) => [h("code", { class: "opt" }, opt), " "]) : "none"),
      h("dt", {}, "axes"), h("dd", {}, one.axes.length
        ? [one.axes.map(({ name, kind, size }) => [chip(kind, `${name} : ${size}`), " "]), h("div", { class: "legend" }, kinds.map((kind) => [chip(kind, kind.toLowerCase()), " "]))]
        : "none"),
      h("dt", {}, "memory"), h("dd", { id: "accesses" }, one.accesses.map(({ what, memory, index: at, valid, variables, view }) => [
        `${what} `, h("code", {}, memory, "[", variables.length && !index.static ? h("a", { href: `expr#${encodeURIComponent(JSON.stringify([variables, at, valid]))}` }, at) : at, "]"),
        valid === "True" ? null : [" where ", h("code", {}, valid)],
        view && !index.static ? [" ", h("a", { class: "as-view", href: `views#${encodeURIComponent(view)}` }, "as a view")] : null, h("br")])),
      h("dt", {}, "launches"), h("dd", {}, one.launches
        ? `${one.launches}, ${time(one.microseconds)} in all; the quickest ${one.gflops.toFixed(2)} GFLOP/s, ${one.gbytes.toFixed(2)} GB/s`
        : "none")),
    h("h2", {}, "source"),
    h("div", { id: "source" }, code(one.source || "(it was not made while this was recorded)", one.language)));
}

// --- around --------------------------------------------------------------------------------------
async function show() {
  arrows = null;
  const [page, ...rest] = decodeURIComponent(location.hash.slice(1)).split("/");
  if (page !== "kernels" && page !== "") main.className = "";
  const current = { program: "Program", graph: "Program", scheduling: "Scheduling", programs: "Programs", time: "Time" }[page] ?? "Kernels";
  bar(pages(), current);
  if (page === "program") showProgram(rest.join("/"));
  else if (page === "graph") showProgram("", Number(rest[0]));
  else if (page === "time") main.replaceChildren(timeline(index, go), flames(index.events, go) ?? "", memory(index.memory, kernelLink) ?? "", roofline(index.kernels, go) ?? "");
  else if (page === "programs") main.replaceChildren(programs(index, kernelLink));
  else if (page === "scheduling") {
    const view = stepper(await fetchJson("data/scheduling.json"), Number(rest[0] ?? 0), (number) => history.replaceState(null, "", `#scheduling/${number}`), index.static ? null : { kernel: null });
    arrows = view.move;
    main.replaceChildren(view.element);
  } else {
    const step = rest[2] === undefined ? undefined : Number(rest[2]);
    await showKernels(rest[0] === undefined ? undefined : Number(rest[0]), tabs().includes(rest[1]) ? rest[1] : "overview", step, page === "");
  }
}

const failing = (action) => async () => {
  try {
    await action();
  } catch (error) {
    main.replaceChildren(h("p", { id: "error", role: "alert" }, error.message));
  }
};

document.addEventListener("keydown", (event) => {
  if (typing(event)) return;
  const by = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
  if (event.key === "/") {
    document.getElementById("filter")?.focus();
    event.preventDefault();
  } else if (by && arrows) {
    arrows(by);
    event.preventDefault();
  } else if (by && event.key.length > 7 && event.key !== "ArrowRight" && event.target.matches(".row, body")) {
    const rows = [...main.querySelectorAll(".row:not([hidden])")];
    const at = rows.findIndex((row) => row.hasAttribute("aria-current"));
    const next = rows[at + by];
    if (next) {
      next.focus();
      location.hash = next.getAttribute("href");
      event.preventDefault();
    }
  }
});

addEventListener("hashchange", failing(show));
await failing(async () => {
  index = await fetchJson("data/index.json");
  await show();
})();
