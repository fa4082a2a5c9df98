// Expressions: an index and a condition over variables; simplified rule by rule, and where it leads.
import { PAGES, bar, code, compute, debounced, fault, h } from "./dom.js";
import { layoutOf } from "./cells.js";

bar(PAGES, "Expressions");
const START = [[["ridx0", 0, 2], ["ridx1", 0, 1]], "(((((ridx0*2)+ridx1)%3)*2)+(((ridx0*2)+ridx1)//3))", "True"];
let given = START;
try {
  if (location.hash) given = JSON.parse(decodeURIComponent(location.hash.slice(1)));
} catch {
  given = START; // an address that somebody cut off
}

const index = h("textarea", { id: "index", rows: 2, spellcheck: "false", "aria-label": "index" });
const valid = h("textarea", { id: "valid", rows: 1, spellcheck: "false", "aria-label": "valid where" });
const trouble = { variables: h("div"), index: h("div"), valid: h("div") };
const rows = h("tbody", { id: "variables" });
const result = h("div", { id: "result" });
index.value = given[1];
valid.value = given[2];

function variable([name, low, high]) {
  const input = (value, label, kind) => h("input", { value, type: kind, "aria-label": label, on: { input: () => update() } });
  const remove = h("button", { "aria-label": `remove ${name}`, on: { click: () => { line.remove(); update(); } } }, "×");
  const line = h("tr", {}, h("td", {}, input(name, "name", "text")), h("td", {}, input(low, "least value", "number")), h("td", {}, input(high, "greatest value", "number")), h("td", {}, remove));
  rows.append(line);
}
given[0].forEach(variable);

const request = () => ({
  variables: [...rows.children].map((line) => {
    const [name, low, high] = [...line.querySelectorAll("input")].map((input) => input.value);
    return [name, low === "" ? null : Number(low), high === "" ? null : Number(high)];
  }),
  index: index.value,
  valid: valid.value,
});

function show(found) {
  for (const box of Object.values(trouble)) box.replaceChildren();
  if (found.error !== undefined) {
    const place = found.in ?? "index";
    const text = { index: index.value, valid: valid.value }[place];
    trouble[place].append(text === undefined ? h("p", { id: "error", role: "alert", "data-offset": found.offset }, found.error) : fault(text, found.offset, found.error));
    result.replaceChildren();
    return;
  }
  const { variables, index: text, valid: condition } = request();
  history.replaceState(null, "", `#${encodeURIComponent(JSON.stringify([variables, text, condition]))}`);
  const bound = (value) => value ?? "unbounded";
  result.replaceChildren(
    h("dl", {},
      h("dt", {}, "simplified"), h("dd", {}, h("code", { id: "index-expression" }, found.index)),
      h("dt", {}, "valid where"), h("dd", {}, h("code", { id: "validity-expression" }, found.valid)),
      h("dt", {}, "bounds"), h("dd", { id: "bounds" }, `${bound(found.bounds[0])} to ${bound(found.bounds[1])}`)),
    h("h3", {}, `rules (${found.steps.length})`),
    h("ol", { class: "applied", start: 0 }, found.steps.map((step, number) => h("li", { "data-step": number },
      h("b", {}, step.rule), " ", h("span", { class: "less" }, step.says),
      h("pre", { class: "old" }, step.old), h("pre", { class: "new" }, step.new),
      step.source ? h("details", {}, h("summary", {}, step.place), code(step.source, "python")) : ""))),
    layoutOf(found.variables.map(([, low, high]) => high - low + 1), found.cells, found.valids, found.left_out));
}

const update = debounced(() => compute("expr", request()), show);
index.addEventListener("input", update);
valid.addEventListener("input", update);
document.getElementById("main").append(
  h("h1", {}, "Expressions"),
  h("p", { class: "less" }, "Whole numbers with + - * // % min max, comparisons, and, or, not, and x if c else y. Limits are included."),
  h("table", { class: "variables" }, h("thead", {}, h("tr", {}, h("th", {}, "variable"), h("th", {}, "least"), h("th", {}, "greatest"), h("th", {}))), rows),
  h("button", { id: "add", on: { click: () => { variable([`x${rows.childElementCount}`, 0, 3]); update(); } } }, "add a variable"),
  trouble.variables, h("label", { for: "index" }, "index"), index, trouble.index, h("label", { for: "valid" }, "valid where"), valid, trouble.valid, result);
update();
