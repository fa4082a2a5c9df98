// What is worth knowing first: which lines cost most, what only copies, what is stored in between
// and why, what was compiled again, and whether every step is right.
import { compute, h, place, time } from "./dom.js";
import { size } from "./memory.js";

const FEW = 4;

export const toLine = ({ file, line }) => `#program/${encodeURIComponent(`${file}:${line}`)}`;
// The lines of a kernel, each once, by that in it which asks for the kernel most.
const lines = ({ places }) => places.filter((one, at) => places.findIndex(({ file, line }) => file === one.file && line === one.line) === at).slice(0, FEW).map((one) => [" ", lineLink(one)]);
const lineLink = (at) => h("a", { href: toLine(at) }, place(at));

function listed(title, id, rows, none) {
  return h("section", {}, h("h3", {}, title), rows.length ? h("ul", { id }, rows.slice(0, FEW).map((row) => h("li", {}, row)),
    rows.length > FEW ? h("li", {}, h("details", {}, h("summary", {}, `and ${rows.length - FEW} more`), h("ul", {}, rows.slice(FEW, 60).map((row) => h("li", {}, row))))) : null) : h("p", { id, class: "less" }, none));
}

function costliest({ files }) {
  const lines = files.flatMap(({ file, text, lines: some }) => {
    const whole = text.split("\n"); // what the file has there: an expression is often a part of it
    return some.map((one) => ({ ...one, file, text: whole[one.line - 1]?.trim() || one.text }));
  });
  const all = lines.reduce((sum, one) => sum + one.microseconds, 0);
  return lines.filter((one) => one.microseconds > 0).sort((one, other) => other.microseconds - one.microseconds)
    .map((one) => [`${time(one.microseconds)} (${Math.round(one.microseconds / all * 100)} %) `, lineLink(one)]);
}

// Kernels that compute nothing: they put memory into another order, or elsewhere; those that a line
// of the program asks for first, since it can be changed.
const copies = ({ kernels }, link) => kernels.filter((one) => one.launches && !one.operations && one.reads)
  .sort((one, other) => !one.places.length - !other.places.length || other.microseconds - one.microseconds)
  .map((one) => [link(one.number), ` ${time(one.microseconds)}, ${one.launches} × ${size(one.bytes)}: `, h("b", {}, one.reasons.join(", ")), one.places.length ? lines(one) : ", of no line of the program"]);

// Kernels that are two since the program asked for the value of one before the other was planned.
const early = (one, link) => one.later.map((reader) => [link(one.number), " is not one with ", link(reader),
  " because: ", h("b", {}, "asked for"), " (its value was computed before its reader was planned; without that call they may be one) ", lineLink(one.asked)]);

const between = ({ kernels, says }, link) => kernels.filter((one) => one.readers.length || one.later.length)
  .sort((one, other) => other.microseconds - one.microseconds)
  .flatMap((one) => one.later.length ? early(one, link) : [[link(one.number), " is not one with ", one.readers.slice(0, 3).map((number) => [link(number), " "]), one.readers.length > 3 ? `and ${one.readers.length - 3} more ` : "",
    "because: ", one.reasons.map((reason) => [h("b", {}, reason), says[reason] ? ` (${says[reason]}) ` : " "]), lines(one)]]);

// Executes the steps of every kernel, those of the scheduling first, up to the first wrong one.
function checker({ kernels, scheduling }, go) {
  const verdict = h("span", { id: "all-verdict", role: "status" });
  let running = false;
  async function check() {
    if (running) return;
    running = true;
    let tried = 0;
    for (const number of [...(scheduling ? [null] : []), ...kernels.map((one) => one.number)]) {
      const name = number === null ? "the scheduling" : kernels[number].name;
      verdict.textContent = `every step is executed on random numbers: ${name}…`;
      const found = await compute("check", { kernel: number }).catch((failed) => ({ error: failed.message }));
      if (!verdict.isConnected) return;
      if (found.first !== null && found.first !== undefined) return go(number, found.first);
      tried += found.tried ?? 0;
    }
    running = false;
    verdict.textContent = `no step gives another result; ${tried} could be executed`;
  }
  return h("p", {}, h("button", { id: "check-all", on: { click: check } }, "find the first wrong step of all kernels"), " ", verdict);
}

// What the program ended by: the error, and its lines on the way to it, the last one first.
const failed = ({ errors }) => errors.map(({ name, text, lines }) => h("section", { class: "failed", role: "alert" },
  h("h3", {}, "the program ended by an error"), h("pre", {}, `${name}: ${text}`), h("ul", {}, lines.map((at) => h("li", {}, lineLink(at))))));

export function glance(index, link, go) {
  const again = index.jits.filter((one) => one.why !== "new");
  return h("section", { id: "glance" }, h("h2", {}, "at a glance"), failed(index),
    h("div", { class: "parts" },
      listed("lines that cost most", "costliest", costliest(index), "nothing was launched"),
      listed("kernels that only copy", "copies", copies(index, link), "none"),
      listed("stored in between, not fused", "between", between(index, link), "nothing: no kernel reads what another one writes"),
      again.length ? listed("functions that were traced again", "again", again.map((one) => [h("a", { href: "#programs" }, one.name), `: of ${one.why}${one.change ? `: ${one.change}` : ""}`]), "") : null),
    index.static ? null : checker(index, go));
}
