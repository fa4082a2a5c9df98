// Lays graphs out by Graphviz: gets {id, dot}, answers {id, plain} or {id, error}.
import { Graphviz } from "@hpcc-js/wasm-graphviz";

const loading = Graphviz.load();

self.onmessage = async ({ data: { id, dot } }) => {
  try {
    const graphviz = await loading;
    self.postMessage({ id, plain: graphviz.layout(dot, "plain", "dot") });
  } catch (error) {
    self.postMessage({ id, error: String(error) });
  }
};
