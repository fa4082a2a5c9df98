// Draws graphs of nodes: laid out by Graphviz in a worker, drawn as SVG.
import { h, svg } from "./dom.js";

const MOST = 150; // nodes that are drawn at once; the rest opens by a click
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

// Draws the graph below `roots` into a new element. `nodes` by number: [op, format, operands, arg,
// text]; `mark` has the numbers to highlight; `only` those to draw, with their operands; `about`
// gives more to say of a node; `choose` hears of a click.
export function drawGraph(nodes, roots, { mark = new Set(), only = null, about = () => "", choose = () => {} } = {}) {
  const box = h("div", { class: "graph", tabindex: 0, role: "group", "aria-label": "graph" }, "…");
  const shown = only ?? nearest(nodes, roots, MOST);
  const render = async () => {
    const folded = new Set();
    const edges = [];
    for (const number of shown) {
      for (const source of new Set(nodes[number][2])) {
        if (!nodes[source]) continue;
        if (!shown.has(source)) folded.add(source);
        edges.push([source, number]);
      }
    }
    const lines = ["digraph { rankdir=TB; ranksep=0.25; nodesep=0.15; node [shape=box fixedsize=true label=\"\"]; edge [arrowhead=none];"];
    const words = new Map();
    for (const number of [...shown, ...folded]) {
      const inner = folded.has(number) && nodes[number][2].length > 0;
      const text = inner ? [nodes[number][0], `+ ${nodes[number][4].slice(0, 24)}`] : labels(nodes[number]);
      words.set(number, { text, inner });
      const width = Math.max(...text.map((line) => line.length)) * 7.2 + 16;
      lines.push(`n${number} [width=${(width / 72).toFixed(2)} height=${((text.length * 15 + 8) / 72).toFixed(2)}];`);
    }
    for (const [from, to] of edges) lines.push(`n${from} -> n${to};`);
    lines.push("}");
    const { plain, error } = await layout(lines.join("\n"));
    box.replaceChildren(error ? h("p", { role: "alert" }, error) : picture(plain, words));
  };
  const picture = (plain, words) => {
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
      const number = Number(row[1].slice(1));
      const [x, middle, width, height] = [Number(row[2]) * 72, y(Number(row[3])), Number(row[4]) * 72, Number(row[5]) * 72];
      const { text, inner } = words.get(number);
      const node = nodes[number];
      const open = () => {
        if (inner) {
          nearest(nodes, [number], MOST / 3, shown);
          render();
        } else choose(number);
      };
      const group = svg("g", {
        class: `node ${kindOf(node[0])}${mark.has(number) ? " marked" : ""}${inner ? " folded" : ""}`,
        "data-node": node[0], "data-number": number, tabindex: 0, role: "button",
      },
      svg("title", {}, `%${number} = ${node[0]} ${node[1]} ${node[3]}\n${node[4]}\n${inner ? "click: show what it is made of" : about(number)}`),
      svg("rect", { x: x - width / 2, y: middle - height / 2, width, height, rx: 4 }),
      text.map((line, at) => svg("text", { x, y: middle + (at - (text.length - 1) / 2) * 15 + 4, class: at ? "less" : "" }, line)));
      group.addEventListener("click", open);
      group.addEventListener("keydown", (event) => { if (event.key === "Enter") open(); });
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
