// Steps through what rules and passes did: a list, and the chosen step before and after.
import { changes, code, compute, h } from "./dom.js";
import { below, drawChange } from "./graph.js";

const AROUND = 200; // steps that are listed before and after the chosen one

// A graph as lines that say what each node computes, so that equal nodes are equal lines.
const lines = (nodes, root) => [...below(nodes, root)].reverse()
  .map((number) => `${nodes[number][0]} ${nodes[number][1]}  ${nodes[number][4]}\n`).join("");

// `found` has nodes and steps; `moved` hears of the number of the step that is shown; where a server
// can execute the steps, `check` is what it is asked.
export function stepper(found, first, moved, check) {
  const { steps, rules } = found.steps;
  const listed = h("ol", { class: "steps", "aria-label": "steps" });
  const shown = h("section", { class: "step", "aria-live": "polite" });
  const element = h("div", { class: "stepper" }, listed, shown);
  const verdict = h("p", { id: "verdict", role: "status" });
  let current = -1;
  let other = null; // the step that this one is compared with
  let matching = () => true;

  const row = (step, number) => h("li", {
    "data-step": number, "data-rule": step.rule, "aria-current": number === current ? "step" : undefined,
    class: step.pass ? "pass" : undefined, on: { click: () => go(number) },
  }, h("span", { class: "less" }, `${number} `), step.rule, " ", h("span", { class: "less" }, step.pass ? "pass" : step.stage));

  function fill() {
    const rows = [];
    for (let number = Math.max(0, current - AROUND); number < Math.min(steps.length, current + AROUND + 1); number++) {
      if (number === current || matching(steps[number])) rows.push(row(steps[number], number));
    }
    listed.replaceChildren(...rows);
    const chosen = listed.querySelector("[aria-current]");
    if (chosen) listed.scrollTop = chosen.offsetTop - listed.clientHeight / 2;
  }

  function go(number) {
    if (number < 0 || number >= steps.length) return;
    current = number;
    fill();
    const step = steps[number];
    const rule = rules[step.rule] ?? { says: "", place: "", source: "" };
    shown.setAttribute("data-shown", number);
    shown.replaceChildren(
      h("h2", {}, `${number} of ${steps.length - 1}: `, h("span", { id: "rule" }, step.rule)),
      h("p", { id: "equation" }, rule.says),
      step.line ? h("p", { id: "step-line", class: "less" }, h("code", {}, step.line)) : "",
      step.pass ? h("p", { class: "less" }, step.before === step.after ? "a pass; it left all as it was" : "a pass over the whole kernel")
        : h("div", { class: "texts" }, h("pre", { class: "old" }, step.old), h("pre", { class: "new" }, step.new)),
      other === null ? drawChange(found.nodes, step.before, step.after) : h("section", { id: "compared" },
        h("h3", {}, `from what step ${other} (${steps[other].rule}) left to what this one leaves`),
        changes(lines(found.nodes, steps[other].after), lines(found.nodes, step.after))),
      rule.source ? h("details", {}, h("summary", {}, rule.place), code(rule.source, "python")) : "");
    moved(number);
  }

  function move(by) {
    let next = current + by;
    while (next >= 0 && next < steps.length && !matching(steps[next])) next += by;
    go(next);
  }

  if (!steps.length) return { element: h("p", {}, "No rule was applied while this was recorded."), move: () => {} };
  const search = h("input", {
    type: "search", placeholder: "rule, pass, line or op", "aria-label": "search steps",
    on: { input: () => {
      const wanted = search.value.toLowerCase();
      const ops = ({ before, after }) => [before, after].map((number) => found.nodes[number]?.[0] ?? "").join(" ");
      matching = (step) => `${step.rule} ${ops(step)} ${step.stage} ${step.line} ${step.old} ${step.new}`.toLowerCase().includes(wanted);
      const next = steps.findIndex((step) => matching(step));
      if (next >= 0) go(next);
    } },
  });
  const compare = h("button", { id: "compare", "aria-pressed": "false", on: { click: () => {
    other = other === null ? current : null;
    compare.setAttribute("aria-pressed", other !== null);
    compare.textContent = other === null ? "compare with this step" : `compared with step ${other}`;
    go(current);
  } } }, "compare with this step");
  async function judge() {
    verdict.textContent = "every step is executed on random numbers…";
    const { error, first: wrong, tried, steps: all } = await compute("check", check).catch((failed) => ({ error: failed.message }));
    if (error) verdict.textContent = error;
    else if (wrong === null) verdict.textContent = `no step gives another result; ${tried} of ${all} could be executed`;
    else {
      verdict.textContent = `step ${wrong} is the first whose result differs from what it began with`;
      go(wrong);
    }
  }
  const buttons = h("div", { class: "buttons" },
    h("button", { on: { click: () => move(-1) }, "aria-label": "previous step" }, "←"),
    h("button", { on: { click: () => move(1) }, "aria-label": "next step" }, "→"), search, compare,
    check ? h("button", { id: "check", on: { click: judge } }, "find the first wrong step") : null, verdict);
  element.prepend(buttons);
  go(Math.min(Math.max(first, 0), steps.length - 1));
  return { element, move };
}
