// Draws graphs of nodes: laid out by Graphviz in a worker, drawn as SVG.
import { h, svg } from "./dom.js";

const MOST = 150; // nodes that are drawn at once; the rest opens by a click
const QUICK = 40; // boxes from which a layout is to be quick rather than fine
const KINDS = {
  memory: ["BUFFER", "PARAM", "LOAD", "STORE", "INDEX", "CONTIGUOUS", "COPY", "DEFINE_LOCAL", "SINK", "ASSIGN"],
  movement: ["RESHAPE", "PERMUTE", "EXPAND", "PAD", "SHRINK", "FLIP", "SHEAR"],
  reduce: ["REDUCE", "SCAN"],
  constant: ["CONST", "VARIABLE", "BIND", "VECTORIZE"],
  control: ["RANGE", "END", "IF", "ENDIF", "SPECIAL", "BARRIER", "CHECK"],
};
const kindOf = (op) => Object.keys(KINDS).find((kind) => KINDS[kind].includes(op)) ?? "compute";

let worker = null;
let count = 0;
const waiting = new Map();

function layout(dot) {
  if (!worker) {
    worker = new Worker(new URL("graphviz.js", import.meta.url));
    worker.onmessage = ({ data }) => {
      waiting.get(data.id)?.(data);
      waiting.delete(data.id);
    };
    worker.onerror = () => {
      for (const answer of waiting.values()) answer({ error: "the worker of the layout failed" });
      waiting.clear();
    };
  }
  return new Promise((resolve) => {
    waiting.set(++count, resolve);
    worker.postMessage({ id: count, dot });
  });
}

// The nodes nearest to the roots, breadth first.
function nearest(nodes, roots, most, known = new Set()) {
  const queue = [...roots];
  let room = most;
  for (let at = 0; at < queue.length && room > 0; at++) {
    const number = queue[at];
    if (!nodes[number] || known.has(number)) continue;
    known.add(number);
    room--;
    queue.push(...nodes[number][2]);
  }
  return known;
}

function labels(node) {
  const [op, dtype, , arg, text] = node;
  const named = ["CONST", "RANGE", "PARAM", "BUFFER", "VARIABLE"].includes(op) ? text : arg;
  return [op, [dtype === "void" ? "" : dtype, named].filter(Boolean).join(" ").slice(0, 32)].filter(Boolean);
}

// What is drawn of a graph that has regions: a box for each that is not open, and the nodes of those
// that are; by node, the box that it is in.
function boxesOf(regions, open) {
  const boxes = new Map();
  const inside = (part, box) => {
    for (const number of part.nodes ?? []) boxes.set(number, box);
    for (const one of part.regions ?? []) inside(one, box);
  };
  const visit = (parts) => {
    for (const part of parts) {
      if (!open.has(part)) inside(part, part);
      else if (part.regions) visit(part.regions);
    }
  };
  visit(regions);
  return boxes;
}

// Those regions that hold any of the nodes, and are to be open for these to be seen.
function around(parts, wanted, open = new Set()) {
  for (const part of parts) {
    const before = open.size;
    if (part.regions) around(part.regions, wanted, open);
    if (open.size > before || part.nodes?.some((number) => wanted.has(number))) open.add(part);
  }
  return open;
}

const widthOf = (text) => (Math.max(...text.map((line) => line.length)) * 7.2 + 16) / 72;

// Draws the graph below `roots` into a new element. `nodes` by number: [op, format, operands, arg,
// text]; `mark` has the numbers to highlight; `only` those to draw, with their operands; `regions`
// those that are shown as one until they are clicked; `about` gives more to say of a node; `choose`
// hears of a click; `reveal` has what is marked in sight.
export function drawGraph(nodes, roots, { mark = new Set(), only = null, regions = [], reveal = false, about = () => "", choose = () => {} } = {}) {
  const box = h("div", { class: "graph", tabindex: 0, role: "group", "aria-label": "graph" }, "…");
  const open = around(regions, mark);
  const shown = only ?? (regions.length ? null : nearest(nodes, roots, MOST));
  const render = async () => {
    const places = regions.length ? boxesOf(regions, open) : new Map();
    const boxes = new Map(); // by name of the box: what it says, and what a click does
    const edges = new Set();
    const add = (name, text, facts) => { if (!boxes.has(name)) boxes.set(name, { text, ...facts }); };
    const names = new Map(regions.length ? [...new Set(places.values())].map((part, at) => [part, `r${at}`]) : []);
    const nameOf = (number) => {
      const part = places.get(number);
      if (!part) return `n${number}`;
      add(names.get(part), [part.title.slice(0, 44), `${part.count} nodes`], { part, marked: false });
      if (mark.has(number)) boxes.get(names.get(part)).marked = true;
      return names.get(part);
    };
    for (const number of shown ?? Object.keys(nodes).map(Number)) {
      const own = nameOf(number);
      add(own, labels(nodes[number]), { number, marked: mark.has(number) });
      for (const source of nodes[number][2]) {
        if (!nodes[source]) continue;
        const from = nameOf(source);
        if (shown && !shown.has(source)) {
          const inner = nodes[source][2].length > 0;
          add(from, inner ? [nodes[source][0], `+ ${nodes[source][4].slice(0, 24)}`] : labels(nodes[source]), { number: source, inner, marked: mark.has(source) });
        }
        if (from !== own) edges.add(`${from} -> ${own};`);
      }
    }
    const quick = boxes.size > QUICK ? "nslimit=1; nslimit1=1; mclimit=0.1; splines=line; " : "";
    const lines = [`digraph { ${quick}rankdir=TB; ranksep=0.25; nodesep=0.15; node [shape=box fixedsize=true label=""]; edge [arrowhead=none];`];
    for (const [name, { text }] of boxes) lines.push(`${name} [width=${widthOf(text).toFixed(2)} height=${((text.length * 15 + 8) / 72).toFixed(2)}];`);
    const { plain, error } = await layout([...lines, ...edges, "}"].join("\n"));
    const fold = open.size ? h("button", { class: "fold", on: { click: () => { open.clear(); render(); } } }, "fold all") : null;
    box.replaceChildren(...[fold, error ? h("p", { role: "alert" }, error) : picture(plain, boxes)].filter(Boolean));
    if (reveal) box.querySelector(".marked")?.scrollIntoView({ block: "center", inline: "center" });
  };
  const picture = (plain, boxes) => {
    const rows = plain.split("\n").map((line) => line.split(" "));
    const [, , wide, high] = rows[0].map(Number);
    const y = (value) => (high - value) * 72;
    const drawn = svg("svg", { viewBox: `-4 -4 ${wide * 72 + 8} ${high * 72 + 8}`, width: wide * 72 + 8, height: high * 72 + 8 });
    for (const row of rows.filter((one) => one[0] === "edge")) {
      const points = [];
      for (let at = 0; at < Number(row[3]); at++) points.push(`${Number(row[4 + 2 * at]) * 72} ${y(Number(row[5 + 2 * at]))}`);
      drawn.append(svg("path", { class: "edge", d: `M${points[0]}C${points.slice(1).join(" ")}` }));
    }
    for (const row of rows.filter((one) => one[0] === "node")) {
      const [x, middle, width, height] = [Number(row[2]) * 72, y(Number(row[3])), Number(row[4]) * 72, Number(row[5]) * 72];
      const { text, number, part, inner, marked } = boxes.get(row[1]);
      const node = nodes[number];
      const act = () => {
        if (part) open.add(part);
        else if (inner) nearest(nodes, [number], MOST / 3, shown);
        else return choose(number);
        render();
      };
      const group = svg("g", {
        class: `node ${part ? "region" : kindOf(node[0])}${marked ? " marked" : ""}${inner || part ? " folded" : ""}`,
        ...(part ? { "data-region": part.title } : { "data-node": node[0], "data-number": number }), tabindex: 0, role: "button",
      },
      svg("title", {}, part ? `${part.title}\n${part.count} nodes\nclick: show them` : `%${number} = ${node[0]} ${node[1]} ${node[3]}\n${node[4]}\n${inner ? "click: show what it is made of" : about(number)}`),
      svg("rect", { x: x - width / 2, y: middle - height / 2, width, height, rx: 4 }),
      text.map((line, at) => svg("text", { x, y: middle + (at - (text.length - 1) / 2) * 15 + 4, class: at ? "less" : "" }, line)));
      group.addEventListener("click", act);
      group.addEventListener("keydown", (event) => { if (event.key === "Enter") act(); });
      drawn.append(group);
    }
    return drawn;
  };
  render();
  return box;
}

// The numbers of all nodes below a root.
export function below(nodes, root) {
  return nearest(nodes, [root], Infinity);
}

// Two graphs side by side: of each what the other lacks is marked, and drawn with its operands.
export function drawChange(nodes, before, after) {
  const [old, fresh] = [below(nodes, before), below(nodes, after)];
  const side = (title, root, own, other) => {
    const lost = new Set([...own].filter((number) => !other.has(number)));
    const mark = lost.size ? lost : new Set([root]);
    const only = new Set([...mark].slice(0, MOST));
    return h("section", { class: title, "aria-label": title },
      h("h3", {}, title), drawGraph(nodes, [root], { mark, only }));
  };
  return h("div", { class: "sides" }, side("before", before, old, fresh), side("after", after, fresh, old));
}
