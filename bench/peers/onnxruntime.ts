/** onnxruntime-node, its CPU provider: graphs of ONNX on all cores. */
import { graphKinds, graphOf, inputOf } from "./graphs.ts";
import { type Maker, type Runnable, serve } from "./serve.ts";

// Imported by a name that is no literal, so that a check of this package does not load it.
const version = "1.30.0", name = "onnxruntime-node";
// deno-lint-ignore no-explicit-any -- its types are not loaded, see above
const ort: any = await import(`npm:${name}@${version}`);
const options = {
  intraOpNumThreads: navigator.hardwareConcurrency,
  extra: { session: { intra_op: { allow_spinning: Deno.env.get("ORT_SPINNING") ?? "1" } } },
};

function graph(kind: string): Maker {
  return async (batch): Promise<Runnable> => {
    const graph = await graphOf(kind), { data, shape } = inputOf(graph, batch);
    const session = await ort.InferenceSession.create(graph.path, options);
    const feeds = { [graph.input]: new ort.Tensor(graph.dtype, data, shape) };
    return { run: () => session.run(feeds), close: () => session.release() };
  };
}

await serve(
  `onnxruntime ${version}`,
  Object.fromEntries(graphKinds.map((kind) => [`onnx-${kind}`, graph(kind)])),
);
