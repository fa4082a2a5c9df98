// When what happened: a track for each device's queue, thread and process, zoomed by the wheel or + and -.
import { h, svg, time } from "./dom.js";

const ROW = 22;
const LEFT = 110;

// Who did something: a device's queue, a thread that had a part in its kernels, or a thread of Python
// in this process or in one that helps it to compile. Names are in the order of the tracks.
const helpers = (events) => [...new Set(events.map((event) => event.process))].filter(Boolean);
function whoOf(events) {
  const others = helpers(events);
  const own = [...new Set(events.filter((event) => !event.process && !event.device).map((event) => event.thread))];
  return (event) => {
    if (event.phase === "kernel") return [0, `${event.device}: queue`];
    if (event.phase === "share") return [1, `${event.device}: thread ${event.worker}`];
    if (event.process) return [3, `helper ${others.indexOf(event.process) + 1}`];
    return [2, own.indexOf(event.thread) > 0 ? `Python ${own.indexOf(event.thread) + 1}` : "Python"];
  };
}

// The trace event format: complete events, in microseconds, and the names of processes and tracks.
const chrome = (events) => {
  const who = whoOf(events);
  const tracks = [...new Set(events.map((event) => who(event).join()))].sort();
  const places = (event) => ({ pid: event.process, tid: tracks.indexOf(who(event).join()) });
  const about = (name, place, text) => ({ ph: "M", name, ...place, args: { name: text } });
  const processes = [0, ...helpers(events)].map((pid) => about("process_name", { pid }, pid ? `helper ${pid}` : "program"));
  const threads = new Map(events.map((event) => [who(event).join(), about("thread_name", places(event), who(event)[1])]));
  return JSON.stringify({
    displayTimeUnit: "ms",
    traceEvents: [...processes, ...threads.values(), ...events.map((event) => ({
      name: event.name || event.phase, cat: event.phase, ...(event.phase === "mark" ? { ph: "i", s: "g" } : { ph: "X", dur: event.microseconds }), ts: event.start, ...places(event),
      args: Object.fromEntries(["line", "asked", "why"].flatMap((name) => event[name] ? [[name, event[name]]] : [])),
    }))],
  });
};

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
  const who = whoOf(lasting);
  const open = new Map(); // by name: the ends of what is going on, outermost first
  const placed = [...lasting].sort((one, other) => one.start - other.start || other.microseconds - one.microseconds).map((event) => {
    const [order, name] = who(event);
    const ends = open.get(name) ?? [];
    while (ends.length && ends.at(-1) <= event.start + 0.2) ends.pop();
    if (order > 1) ends.push(event.start + event.microseconds);
    open.set(name, ends);
    return { event, order, name, depth: Math.max(ends.length - 1, 0) };
  });
  const rowOf = ({ order, name, depth }) => `${order} ${name} ${String(depth).padStart(2, "0")}`;
  const rows = [...new Set(placed.map(rowOf))].sort();
  const tracks = rows.map((row) => row.endsWith(" 00") ? row.slice(2, -3) : "");
  for (const one of placed) one.track = rows.indexOf(rowOf(one));
  let [from, to] = [start, Math.max(end, start + 1)];
  const label = h("p", { class: "less" });
  const box = h("div", { class: "timeline", tabindex: 0, role: "group", "aria-label": "timeline: + and - zoom, arrows move" });

  function draw() {
    const wide = Math.max(box.clientWidth || 900, 300) - LEFT;
    const scale = wide / (to - from);
    const drawn = svg("svg", { width: wide + LEFT, height: tracks.length * ROW + 24 });
    tracks.forEach((name, at) => drawn.append(svg("text", { x: 4, y: at * ROW + 15, class: "less", "data-track": name }, name)));
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
