// A kernel compiled anew: for any target, with any opts, and compared with other opts.
import { changes, code, compute, h } from "./dom.js";

const TARGETS = ["cpu", "sse", "avx2", "avx512", "aarch64", "c", "cuda:sm_80", "opencl", "metal", "wgsl"];
const SHOWN = { source: "source", assembly: "assembly", both: "what other opts change" };

export function compiler(one, first) {
  const select = (id, label, values, changed) => h("select", { id, "aria-label": label, on: { change: changed } },
    Object.entries(values).map(([value, text]) => h("option", { value }, text)));
  const field = (id, label) => {
    const input = h("textarea", { id, rows: 4, spellcheck: "false", on: { change: update } });
    input.value = one.opts.join("\n");
    return h("label", {}, label, input);
  };
  const target = select("target", "target", Object.fromEntries(TARGETS.map((name) => [name, name])), () => {
    for (const one of [opts, others]) one.querySelector("textarea").value = ""; // opts of one target seldom fit another
    update();
  });
  const what = select("what", "what to show", SHOWN, () => update());
  const opts = field("opts", "opts, one a line: NAME axis amount");
  const others = field("others", "other opts");
  const result = h("div", { id: "compiled" }, "…");
  what.value = first;
  const made = (input, chosen) => compute("program", { kernel: one.number, target: target.value, what: what.value, opts: chosen ? null : input.querySelector("textarea").value });
  let turn = 0;
  async function update() {
    const mine = ++turn;
    others.hidden = what.value !== "both";
    const elsewhere = target.value !== "cpu" && !opts.querySelector("textarea").value;
    const found = await Promise.all([made(opts, elsewhere), ...(others.hidden ? [] : [made(others)])])
      .catch((error) => [{ error: error.message }]);
    if (mine !== turn) return;
    const wrong = found.find((program) => program.error);
    if (wrong) return result.replaceChildren(h("p", { id: "error", role: "alert" }, wrong.error));
    const [program, other] = found;
    result.replaceChildren(
      h("p", { class: "less" }, `opts: ${program.opts.join(", ") || "none"}`),
      other ? changes(program.source, other.source)
        : what.value === "assembly" && !program.assembly ? h("p", { id: "lacking" }, program.lacking)
          : code(program[what.value], what.value === "assembly" ? "assembly" : program.language));
  }
  update();
  return h("div", {}, h("div", { class: "buttons" }, target, what), h("div", { class: "sides" }, opts, others), result);
}
