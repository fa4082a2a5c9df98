// A flame chart on a canvas, for the explorer.
export { FlameChart } from "flame-chart-js";
