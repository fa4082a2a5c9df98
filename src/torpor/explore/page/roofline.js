// Kernels by operations a byte and a second, below what the device does at most.
import { h, svg } from "./dom.js";

const [WIDE, HIGH, LEFT, BELOW, RIGHT] = [640, 320, 56, 34, 24];

export function roofline(kernels, choose) {
  const shown = kernels.filter((one) => one.operations && one.bytes && one.gflops > 0);
  const peaks = kernels.flatMap((one) => one.peaks.length ? [one.peaks] : []);
  if (!shown.length || !peaks.length) return null;
  const [flops, bandwidth] = [0, 1].map((at) => Math.max(...peaks.map((one) => one[at])) / 1e9);
  const densities = [...shown.map((one) => one.operations / one.bytes), flops / bandwidth];
  const rates = [...shown.map((one) => one.gflops), flops];
  const scale = (values, from, to) => {
    const [least, most] = [Math.floor(Math.log10(Math.min(...values)) - 0.2), Math.ceil(Math.log10(Math.max(...values)) + 0.2)];
    const at = (value) => from + (Math.log10(value) - least) / (most - least) * (to - from);
    return { at, ticks: Array.from({ length: most - least + 1 }, (_, n) => 10 ** (least + n)), least: 10 ** least, most: 10 ** most };
  };
  const x = scale(densities, LEFT, WIDE - RIGHT);
  const y = scale(rates, HIGH - BELOW, 10);
  const roof = [x.least, flops / bandwidth, x.most].map((at) => `${x.at(at)} ${Math.min(y.at(Math.min(flops, at * bandwidth)), HIGH - BELOW)}`);
  const text = (value) => value >= 0.01 && value < 1e5 ? String(Number(value.toPrecision(2))) : value.toExponential(0);
  return h("section", { id: "roofline" }, h("h2", {}, "roofline"),
    svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, class: "plot" },
      x.ticks.map((at) => [svg("line", { class: "grid", x1: x.at(at), x2: x.at(at), y1: 10, y2: HIGH - BELOW }), svg("text", { x: x.at(at), y: HIGH - BELOW + 14, "text-anchor": "middle" }, text(at))]),
      y.ticks.map((at) => [svg("line", { class: "grid", x1: LEFT, x2: WIDE - RIGHT, y1: y.at(at), y2: y.at(at) }), svg("text", { x: LEFT - 6, y: y.at(at) + 4, "text-anchor": "end" }, text(at))]),
      svg("text", { x: WIDE / 2, y: HIGH - 4, "text-anchor": "middle" }, "operations a byte"),
      svg("text", { x: 12, y: HIGH / 2, "text-anchor": "middle", transform: `rotate(-90 12 ${HIGH / 2})` }, "GFLOP/s"),
      svg("path", { class: "roof", d: `M${roof.join("L")}` }),
      shown.map((one) => {
        const point = svg("circle", { cx: x.at(one.operations / one.bytes), cy: y.at(one.gflops), r: 5, tabindex: 0, role: "link", "data-point": one.name },
          svg("title", {}, `${one.name}: ${one.gflops.toFixed(2)} GFLOP/s, ${one.gbytes.toFixed(2)} GB/s`));
        point.addEventListener("click", () => choose(one.number));
        point.addEventListener("keydown", (event) => { if (event.key === "Enter") choose(one.number); });
        return point;
      })),
    h("p", { class: "less" }, `Each kernel's quickest launch. The line is what the compiler's cost model knows of this machine: ${flops.toFixed(0)} GFLOP/s in float32, ${bandwidth.toFixed(0)} GB/s from memory; what lies in caches may be above it.`));
}
