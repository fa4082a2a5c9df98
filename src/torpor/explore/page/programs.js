// Functions that the jit traced: why, what is guarded, and what lies where in their memory.
import { h, place, svg, time } from "./dom.js";
import { toLine } from "./glance.js";
import { size } from "./memory.js";

const WIDE = 900;

// Who lies where, when: commands from left to right, bytes from top to bottom.
function drawn({ commands, arenas, values, results }) {
  const step = WIDE / Math.max(commands.length, 1);
  const wheres = [...new Set(values.map((one) => one.arena))];
  const pictures = wheres.map((where) => {
    const inside = values.filter((one) => one.arena === where);
    const whole = arenas[where]?.bytes ?? Math.max(...inside.map((one) => one.offset + one.bytes));
    const high = Math.min(240, 40 + 14 * inside.length);
    const boxes = inside.map((one) => {
      const [x, y, wide, tall] = [one.first * step, one.offset / whole * high, (one.last - one.first + 1) * step - 1, one.bytes / whole * high - 1];
      const named = `${size(one.bytes)} ${commands[one.first]}`.slice(0, Math.floor(wide / 7));
      return svg("g", {}, svg("title", {}, `${size(one.bytes)} at ${one.offset}\nmade by ${commands[one.first]} (${one.first})\nlast read by ${commands[one.last]} (${one.last})`),
        svg("rect", { class: "lies", x, y, width: Math.max(wide, 1), height: Math.max(tall, 1), "data-offset": one.offset }),
        tall > 12 && named.length > 8 ? [svg("text", { x: x + 4, y: y + tall / 2 + 4 }, named)] : []);
    });
    return h("figure", {}, h("figcaption", {}, arenas[where] ? `${arenas[where].device}: ${size(whole)}` : `in the memory of ${where}, before it is made`),
      svg("svg", { viewBox: `0 0 ${WIDE} ${high}`, class: "arena" }, boxes));
  });
  const donated = results.flatMap((one, number) => one.donor === null ? [] : [h("li", {}, `result ${number} (${size(one.bytes)}) takes the memory of input ${one.donor}, from ${commands[one.first]} on`)]);
  return [h("p", { class: "less" }, `${commands.length} commands from left to right; ${values.length} values on the way; ${size(results.reduce((sum, one) => sum + one.bytes, 0))} in ${results.length} results`), pictures,
    donated.length ? h("ul", { class: "donated" }, donated) : ""];
}

const listed = (title, texts, open = false, folded = false) => texts.length
  ? h("details", { open: open || (!folded && texts.length <= 12) }, h("summary", {}, `${title} (${texts.length})`), h("ul", {}, texts.map((text) => h("li", {}, h("code", {}, text)))))
  : null;

const LIBRARIES = /libraries/; // what a user hardly ever changes
const because = ({ why, change }) => why === "new" ? "it was new" : `of ${why}${change ? `: ${change}` : ""}`;

// What is guarded, by what kind of thing it is about, the user's own first; beside it its value.
function guarded(guards) {
  const kinds = Map.groupBy(guards, ([kind]) => kind);
  const own = guards.filter(([kind]) => !LIBRARIES.test(kind)).length;
  const order = [...kinds].sort(([one], [other]) => LIBRARIES.test(one) - LIBRARIES.test(other) || kinds.get(one).length - kinds.get(other).length);
  return h("details", { class: "guards" }, h("summary", {}, `guards: ${own} of the program, ${guards.length - own} of libraries; where one differs, it is traced anew`),
    order.map(([kind, all]) => listed(kind, all.map(([, path, value]) => value ? `${path} = ${value}` : path), false, LIBRARIES.test(kind))));
}

const FEW = 4; // kernels that do not fold
const NEW = new Set(["", "new", "other operations"]); // why a kernel is compiled that is like none before
export const compiled = (events) => events.filter(({ phase, kernel }) => phase === "compile" && kernel !== undefined);

// Those that were compiled again with why; those that are new fold where they are many.
function kernels(some, link) {
  const again = some.filter(({ why }) => !NEW.has(why)).map((one) => h("div", {}, link(one.kernel), h("span", { class: "less" }, ` again: ${one.why}`)));
  const fresh = some.filter(({ why }) => NEW.has(why)).map((one) => h("div", {}, link(one.kernel)));
  return [again, fresh.length > FEW ? h("details", {}, h("summary", {}, `${fresh.length} new ones`), fresh) : fresh];
}

// What was compiled at which call, and why again; the calls that took longest come first.
function calls(events, link) {
  const took = (some) => some.reduce((all, one) => all + one.microseconds, 0);
  const called = [...Map.groupBy(compiled(events), ({ asked }) => asked)].sort(([, some], [, others]) => took(others) - took(some));
  const where = (asked) => {
    const [, file, line, text] = /^(.+?):(\d+)(?:: (.*))?$/s.exec(asked) ?? [];
    return file ? h("a", { href: toLine({ file, line }) }, place({ file, line, text: text ?? "" })) : "of no call of the program";
  };
  return called.length ? h("section", { id: "calls" }, h("h2", {}, "what was compiled at which call"), h("table", {},
    h("thead", {}, h("tr", {}, ["call", "kernels, and why again", "time"].map((name) => h("th", {}, name)))),
    h("tbody", {}, called.map(([asked, some]) => h("tr", { "data-call": asked },
      h("td", {}, where(asked)),
      h("td", {}, kernels(some, link)),
      h("td", { class: "number" }, time(took(some)))))))) : null;
}

export function programs({ jits, events }, link) {
  const counts = new Map();
  return h("div", {}, h("h1", {}, "Programs"), calls(events, link), jits.map((one) => {
    counts.set(one.name, (counts.get(one.name) ?? 0) + 1);
    return h("section", { class: "program", "data-jit": one.name },
      h("h2", {}, `${one.name}: trace ${counts.get(one.name)}`),
      h("dl", {},
        h("dt", {}, "traced because"), h("dd", { class: "because" }, because(one)),
        one.line ? [h("dt", {}, "called at"), h("dd", {}, h("a", { href: `#program/${encodeURIComponent(`${one.line.file}:${one.line.line}`)}` }, place(one.line)))] : null,
        one.arguments.length ? [h("dt", {}, "arguments"), h("dd", {}, one.arguments.map((text) => [h("code", {}, text), h("br")]))] : null,
        one.plain ? [h("dt", {}, "runs as it is"), h("dd", {}, `since it ${one.plain}`)] : null),
      listed("baked in", one.baked, true), listed("numbers that are inputs", one.takes), one.guards.length ? guarded(one.guards) : null,
      one.arena ? [h("h3", {}, "memory"), drawn(one.arena)] : null);
  }));
}
