// Views: a tracker as text, as fields and as movements; its index, and where each element lies.
import { PAGES, bar, compute, debounced, fault, h } from "./dom.js";
import { layoutOf } from "./cells.js";

bar(PAGES, "Views");
const MOVES = {
  permute: "(1, 0)", reshape: "(3, 2)", expand: "(3, 2)", pad: "((1, 1), (0, 0))",
  shrink: "((0, 2), (0, 1))", flip: "(0,)",
};
const START = "ShapeTracker.from_shape((3, 2)).permute((1, 0)).reshape((3, 2))";
const text = h("textarea", { id: "tracker", rows: 3, spellcheck: "false", "aria-label": "tracker" });
const result = h("div", { id: "result" });
const fields = h("div", { id: "views" });
const trouble = h("div", { "aria-live": "assertive" });
const steps = h("ol", { class: "moves", id: "moves" });
const move = h("select", { "aria-label": "movement", id: "movement" }, Object.keys(MOVES).map((name) => h("option", {}, name)));
const argument = h("input", { value: MOVES.permute, "aria-label": "its argument", id: "argument" });
move.addEventListener("change", () => { argument.value = MOVES[move.value]; });

const row = (numbers) => `(${numbers.join(", ")}${numbers.length === 1 ? "," : ""})`;
const maskText = (mask) => mask === null ? "None" : row(mask.map(row));

// Fields that edit the views; each change writes the text anew.
function edit(views) {
  const inputs = [];
  const field = (view, name, value) => {
    const input = h("input", { value, "data-field": name, "aria-label": `${name} of view ${view}`, on: { change: write } });
    inputs[view] ??= {};
    inputs[view][name] = input;
    return h("label", {}, `${name} `, input);
  };
  function write() {
    const parts = inputs.map((one) => `View.create(shape=${one.shape.value}, strides=${one.strides.value}, offset=${one.offset.value}, mask=${one.mask.value})`);
    text.value = `ShapeTracker(views=(${parts.join(", ")},))`;
    update();
  }
  fields.replaceChildren(...views.map((view, at) => h("fieldset", {}, h("legend", {}, `view ${at}${at === 0 && views.length > 1 ? " (of memory)" : ""}`),
    field(at, "shape", row(view.shape)), field(at, "strides", row(view.strides)),
    field(at, "offset", view.offset), field(at, "mask", maskText(view.mask)))));
}

function show(found) {
  if (found.error !== undefined) {
    trouble.replaceChildren(fault(text.value, found.offset, found.error));
    result.replaceChildren();
    return;
  }
  trouble.replaceChildren();
  history.replaceState(null, "", `#${encodeURIComponent(text.value)}`);
  edit(found.views);
  steps.replaceChildren(...found.steps.map((step) => h("li", {}, h("code", {}, step.text), h("span", { class: "less" }, ` ${row(step.shape)}`))));
  const at = Object.entries(found.at);
  result.replaceChildren(
    at.length ? h("p", { class: "less", id: "at" }, `shown with ${at.map(([name, value]) => `${name} = ${value}`).join(", ")}`) : "",
    h("dl", {},
      h("dt", {}, "index"), h("dd", {}, h("code", { id: "index-expression" }, found.index)),
      h("dt", {}, "valid where"), h("dd", {}, h("code", { id: "validity-expression" }, found.valid)),
      h("dt", {}, "repr"), h("dd", {}, h("code", { id: "repr" }, found.repr))),
    layoutOf(found.shape, found.cells, found.valids, found.left_out),
    h("p", {}, h("a", { href: `expr#${encodeURIComponent(JSON.stringify([found.variables, found.index, found.valid]))}` }, "as an expression")));
}

const update = debounced(() => compute("views", { text: text.value }), show);
text.addEventListener("input", update);
const apply = h("button", { id: "apply", on: { click: () => {
  text.value = `${text.value.trimEnd()}.${move.value}(${argument.value})`;
  update();
} } }, "apply");
const undo = h("button", { id: "undo", on: { click: () => {
  const at = steps.lastElementChild?.querySelector("code").textContent ?? "";
  if (steps.childElementCount > 1 && text.value.trimEnd().endsWith(at)) {
    text.value = text.value.trimEnd().slice(0, -at.length);
    update();
  }
} } }, "undo");

document.getElementById("main").append(
  h("h1", {}, "Views"),
  h("p", { class: "less" }, "A ShapeTracker or a View as its repr, or from_shape(…), and movements after it. Masks are half-open: (low, high) holds low and not high."),
  text, trouble,
  h("div", { class: "buttons" }, move, argument, apply, undo), steps, fields, result);
text.value = decodeURIComponent(location.hash.slice(1)) || START;
update();
