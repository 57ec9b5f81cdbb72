/** Graphs of ONNX in netcl, as onnxruntime runs them beside. */
import { nn, noGrad, realizeAll, Tensor } from "@netcl/netcl";
import { loadOnnx, saveOnnx } from "@netcl/netcl/models";
import { graphKinds, graphOf, inputOf } from "./graphs.ts";
import type { Countable, Maker, Runnable } from "./serve.ts";

/** The works on graphs, by kind. */
export function graphWorks(sync: () => void): Record<string, Maker> {
  const graphs = graphKinds.map((kind) => [`onnx-${kind}`, inference(kind, sync)] as const);
  return { ...Object.fromEntries(graphs), "onnx-load": loading };
}

function inference(kind: string, sync: () => void): Maker {
  return async (batch): Promise<Runnable> => {
    const graph = await graphOf(kind), model = await loadOnnx(graph.path);
    const { data, shape } = inputOf(graph, batch);
    const x = Tensor.fromHost(data, { shape }).realize();
    const run = () => {
      const outputs = Object.values(noGrad(() => model.run({ [graph.input]: x })));
      realizeAll(outputs);
      for (const output of outputs) output.dispose();
    };
    return { run, sync };
  };
}

/** The seconds that it takes to load a graph of so many megabytes, which the system has read before. */
async function loading(megabytes: number): Promise<Countable> {
  const path = await Deno.makeTempFile(), side = 1000;
  const layers = Array.from({ length: megabytes / 4 }, () => new nn.Linear(side, side));
  await saveOnnx(path, new nn.Sequential(...layers), { x: Tensor.ones([1, side]) });
  const count = async () => {
    const start = performance.now(), model = await loadOnnx(path);
    model.dispose();
    return (performance.now() - start) / 1e3;
  };
  return { count, close: () => Deno.removeSync(path) };
}
