// When what happened: a track for each thread and phase, zoomed by the wheel or + and -.
import { h, svg, time } from "./dom.js";

const ROW = 22;
const LEFT = 110;

// The trace event format: complete events, in microseconds.
const chrome = (events) => JSON.stringify({
  displayTimeUnit: "ms",
  traceEvents: events.map(({ name, phase, start, microseconds, thread, line, asked, why }) => ({
    name: name || phase, cat: phase, ...(phase === "mark" ? { ph: "i", s: "g" } : { ph: "X", dur: microseconds }), ts: start, pid: 1, tid: thread ?? 0,
    args: Object.fromEntries(Object.entries({ line, asked, why }).filter(([, value]) => value)),
  })),
});

function download(name, text) {
  const address = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  h("a", { href: address, download: name }).click();
  URL.revokeObjectURL(address);
}

export function timeline(index, choose) {
  const { events } = index;
  const marks = events.filter((event) => event.phase === "mark");
  const lasting = events.filter((event) => event.phase !== "mark");
  if (!lasting.length) return h("p", {}, "Nothing was recorded.");
  const start = Math.min(...lasting.map((event) => event.start));
  const end = Math.max(...lasting.map((event) => event.start + event.microseconds));
  const tracks = ["kernels"];
  const threads = [...new Set(lasting.map((event) => event.thread).filter((one) => one !== undefined))];
  const open = new Map(); // by thread: the ends of what is going on, outermost first
  const placed = [...lasting].sort((one, other) => one.start - other.start || other.microseconds - one.microseconds).map((event) => {
    if (event.phase === "kernel") return { event, track: 0 };
    const thread = event.thread ?? threads[0];
    const ends = open.get(thread) ?? [];
    while (ends.length && ends.at(-1) <= event.start + 0.2) ends.pop();
    ends.push(event.start + event.microseconds);
    open.set(thread, ends);
    const title = `${threads.length > 1 ? `thread ${threads.indexOf(thread) + 1}` : "compiler"}${" ".repeat(ends.length)}`;
    if (!tracks.includes(title)) tracks.push(title);
    return { event, track: tracks.indexOf(title) };
  });
  const order = [...tracks].sort((one, other) => (one !== "kernels") - (other !== "kernels") || (one < other ? -1 : 1));
  for (const one of placed) one.track = order.indexOf(tracks[one.track]);
  tracks.splice(0, tracks.length, ...order);
  let [from, to] = [start, Math.max(end, start + 1)];
  const label = h("p", { class: "less" });
  const box = h("div", { class: "timeline", tabindex: 0, role: "group", "aria-label": "timeline: + and - zoom, arrows move" });

  function draw() {
    const wide = Math.max(box.clientWidth || 900, 300) - LEFT;
    const scale = wide / (to - from);
    const drawn = svg("svg", { width: wide + LEFT, height: tracks.length * ROW + 24 });
    tracks.forEach((name, at) => drawn.append(svg("text", { x: 4, y: at * ROW + 15, class: "less" }, /  $/.test(name) ? "" : name)));
    let last = new Map(); // the end of what is drawn on a track: what is narrower is not drawn again
    for (const { event, track } of placed) {
      const left = Math.max((event.start - from) * scale, 0);
      const right = Math.min((event.start + event.microseconds - from) * scale, wide);
      if (right < 0 || left > wide || right - left < 0) continue;
      if (right - left < 1 && left - (last.get(track) ?? -9) < 1) continue;
      last.set(track, Math.max(left, right));
      const mark = svg("g", { class: `event ${event.phase}`, "data-event": event.phase },
        svg("title", {}, [`${event.phase} ${event.name}`, time(event.microseconds), event.why, event.line ?? "", event.asked ? `asked for at ${event.asked}` : ""].filter(Boolean).join("\n")),
        svg("rect", { x: LEFT + left, y: track * ROW + 2, width: Math.max(right - left, 1), height: ROW - 5, rx: 2 }));
      if (right - left > 60) mark.append(svg("text", { x: LEFT + left + 4, y: track * ROW + 15 }, `${event.name || event.phase}`.slice(0, Math.floor((right - left) / 8))));
      if (event.kernel !== undefined) mark.addEventListener("click", () => choose(event.kernel));
      drawn.append(mark);
    }
    let free = -Infinity; // where the last mark's name ends
    for (const { name, start: at } of marks) {
      const x = LEFT + (at - from) * scale;
      if (at < from || at > to) continue;
      const told = x < free ? "" : name.slice(0, 20);
      if (told) free = x + told.length * 7 + 6;
      drawn.append(svg("g", { class: "mark", "data-mark": name }, svg("title", {}, name),
        svg("line", { x1: x, x2: x, y1: 0, y2: tracks.length * ROW + 8 }), svg("text", { x: x + 3, y: tracks.length * ROW + 18 }, told)));
    }
    box.replaceChildren(drawn);
    label.textContent = `${time(from - start)} to ${time(to - start)} of ${time(end - start)}; the wheel or + and - zoom, arrow keys move, 0 shows all${index.left_out ? `; ${index.left_out} later events are left out` : ""}`;
  }

  function zoom(factor, at = 0.5) {
    const middle = from + (to - from) * at;
    const span = Math.min(Math.max((to - from) * factor, 1), Math.max(end - start, 1));
    from = Math.max(start, Math.min(middle - span * at, end - span));
    to = from + span;
    draw();
  }

  function move(by) {
    const step = Math.max(start - from, Math.min((to - from) * by, Math.max(end, start + 1) - to));
    [from, to] = [from + step, to + step];
    draw();
  }

  box.addEventListener("wheel", (event) => {
    const { left, width } = box.getBoundingClientRect();
    zoom(event.deltaY > 0 ? 1.25 : 0.8, Math.min(Math.max((event.clientX - left - LEFT) / (width - LEFT), 0), 1));
    event.preventDefault();
  }, { passive: false });
  box.addEventListener("keydown", (event) => {
    const action = { "+": () => zoom(0.5), "=": () => zoom(0.5), "-": () => zoom(2), 0: () => zoom(Infinity), ArrowRight: () => move(0.25), ArrowLeft: () => move(-0.25) }[event.key];
    if (action) {
      action();
      event.preventDefault();
      event.stopPropagation();
    }
  });
  new ResizeObserver(draw).observe(box);
  const save = h("button", { id: "chrome", on: { click: () => download("trace.json", chrome(events)) } }, "save for ui.perfetto.dev");
  return h("div", {}, label, box, h("div", { class: "buttons" }, save));
}
