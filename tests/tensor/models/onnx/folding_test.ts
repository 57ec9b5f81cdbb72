import { assert, assertEquals } from "@std/assert";
import { manualSeed, nn, noGrad, Tensor } from "../../../../mod.ts";
import { loadOnnx, saveOnnx } from "@netcl/netcl/models";
import { Value } from "../../../../tensor/models/onnx/core/value.ts";
import { foldGraph } from "../../../../tensor/models/onnx/folding.ts";
import { encodeModel } from "../../../../tensor/models/onnx/format/schema.ts";
import { decodeTensor, encodeTensor } from "../../../../tensor/models/onnx/format/tensor_proto.ts";
import { GraphRunner } from "../../../../tensor/models/onnx/graph_runner.ts";
import { OnnxModel, parseOnnx } from "../../../../tensor/models/onnx/onnx_model.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";
import { inFolder } from "../../../temporary_folder.ts";

class Net extends nn.Module {
  readonly first = new nn.Conv2d(3, 4, 3, { padding: 1, bias: false });
  readonly norm = new nn.BatchNorm2d(4);
  readonly second = new nn.Conv2d(4, 6, 1);
  readonly scale = nn.parameter(Tensor.rand([6, 1, 1]).add(0.5));
  readonly up = new nn.ConvTranspose2d(6, 2, 2, { stride: 2 });
  readonly last = new nn.BatchNorm2d(2);

  forward(x: Tensor): Tensor {
    const y = this.norm.forward(this.first.forward(x)).relu();
    const z = this.second.forward(y).mul(this.scale).sub(this.scale.div(2));
    return this.last.forward(this.up.forward(z)).add(z.mean());
  }
}

async function saved(folder: string): Promise<string> {
  manualSeed(3);
  const path = `${folder}/net.onnx`, model = new Net();
  for (const { runningMean, runningVar } of [model.norm, model.last]) {
    runningMean!.assign(Tensor.randn(runningMean!.shape));
    runningVar!.assign(Tensor.rand(runningVar!.shape).add(0.5));
  }
  await saveOnnx(path, model, { x: Tensor.randn([2, 3, 6, 6]) }, { dynamic: { x: ["n"] } });
  return path;
}

testOnBackends(
  "norms and factors become part of convolutions, and the values stay",
  () =>
    inFolder(async (folder) => {
      const path = await saved(folder);
      const model = await loadOnnx(path), x = Tensor.randn([2, 3, 6, 6]);
      const folded = () => noGrad(() => model.run({ x })).output!;
      // With gradients the graph is computed as it is written.
      assert(await folded().allClose(model.run({ x }).output!, { rtol: 1e-4, atol: 1e-5 }));
      const proto = parseOnnx(await Deno.readFile(path)), { graph } = proto;
      const weights = graph!.initializer.map((tensor) => {
        const array = decodeTensor(tensor);
        return [tensor.name!, Value.ofArray(array, array.type)] as const;
      });
      const { nodes } = foldGraph(graph!, new GraphRunner(proto), new Map(weights));
      assertEquals(nodes.map(({ op_type }) => op_type), [
        "Conv",
        "Relu",
        "Conv",
        "ConvTranspose",
        "ReduceMean",
        "Add",
        "Identity",
      ]);
    }),
);

testOnBackends("what was computed of weights follows them", () =>
  inFolder(async (folder) => {
    const path = await saved(folder);
    const model = await loadOnnx(path), x = Tensor.randn([2, 3, 6, 6]);
    for (const name of ["norm.running_var", "norm.weight", "second.weight", "scale"]) {
      // Recorded, replayed, and then with another weight.
      for (let round = 0; round < 3; round++) noGrad(() => model.run({ x })).output!.realize();
      const weight = model.weights[name]!;
      noGrad(() => weight.assign(weight.mul(2)));
      const { output } = noGrad(() => model.run({ x }));
      assert(await output!.allClose(model.run({ x }).output!, { rtol: 1e-4, atol: 1e-5 }), name);
    }
    assertEquals(Object.keys(model.weights).includes("first.weight"), true);
  }));

/** The type of a value: 1 stands for float32, 9 for bool. */
const value = (name: string, elem_type: number) => ({ name, type: { tensor_type: { elem_type } } });

function modelOf(
  graph: Record<string, unknown>,
  scalars: Record<string, number> = {},
): OnnxModel {
  const weight = { data: Float32Array.of(2, 3), shape: [2], dtype: "float32" } as const;
  const numbers = Object.entries(scalars).map(([name, number]) =>
    encodeTensor(name, { data: Float32Array.of(number), shape: [], dtype: "float32" })
  );
  const whole = { ...graph, initializer: [encodeTensor("w", weight), ...numbers] };
  const opset_import = [{ domain: "", version: 17 }];
  return new OnnxModel(parseOnnx(encodeModel({ opset_import, graph: whole })));
}

testOnCPU("outputs of weights alone outlive the caller's, and defaults give way", async () => {
  const model = modelOf({
    node: [
      { op_type: "Mul", input: ["w", "w"], output: ["square"] },
      { op_type: "Add", input: ["x", "square"], output: ["y"] },
    ],
    input: [value("x", 1), value("w", 1)],
    output: [value("y", 1), value("square", 1)],
  });
  const x = Tensor.ones([2]);
  for (let round = 0; round < 4; round++) {
    const { y, square } = noGrad(() => model.run({ x }));
    assertEquals([await y!.toArray(), await square!.toArray()], [[5, 10], [4, 9]]);
    y!.dispose();
    square!.dispose();
  }
  const { y } = noGrad(() => model.run({ x, w: Tensor.ones([2]) }));
  assertEquals(await y!.toArray(), [2, 2]);
});

testOnCPU("weights that only a branch uses are parameters, known in every call", async () => {
  const branch = (kind: string) => ({
    name: kind,
    node: [{ op_type: kind, input: ["x", "w"], output: [`${kind} result`] }],
    output: [value(`${kind} result`, 1)],
  });
  const attribute = ["then", "else"].map((name, k) => ({
    name: `${name}_branch`,
    type: 5,
    g: branch(["Mul", "Add"][k]!),
  }));
  const model = modelOf({
    node: [{ op_type: "If", input: ["c"], output: ["y"], attribute }],
    input: [value("c", 9), value("x", 1)],
    output: [value("y", 1)],
  });
  assertEquals(model.namedParameters().map(([name]) => name), ["w"]);
  const run = (c: boolean) =>
    noGrad(() => model.run({ c: Tensor.fromHost(c), x: Tensor.ones([2]) })).y!.toArray();
  for (let round = 0; round < 2; round++) {
    assertEquals([await run(true), await run(false)], [[2, 3], [3, 4]]);
  }
  noGrad(() => model.weights.w!.assign(Tensor.ones([2])));
  assertEquals([await run(true), await run(false)], [[1, 1], [2, 2]]);
});

testOnBackends("GraphRunner has numbers that a graph knows in its kernels' text", async () => {
  const chain = [
    ["Clip", "low", "high"],
    ["Pow", "two"],
    ["Div", "high"],
    ["Mod", "two"],
    ["Sub", "low"],
  ];
  const model = modelOf({
    node: chain.map(([op_type, ...others], k) => ({
      op_type,
      input: [`x${k}`, ...others],
      output: [`x${k + 1}`],
      attribute: op_type === "Mod" ? [{ name: "fmod", type: 2, i: 1 }] : [],
    })),
    input: [value("x0", 1)],
    output: [value("x5", 1)],
  }, { low: -3, high: 6, two: 2 });
  const x0 = Tensor.fromHost([-9, -1, 2, NaN, 7]), { x5 } = noGrad(() => model.run({ x0 }));
  assertEquals(x5!.explain().match(/reads +(.*)/)![1], "float32 [5]");
  const expected = [1.5, 1 / 6, 4 / 6, NaN, 0].map((y) => y + 3);
  assert(await x5!.allClose(Tensor.fromHost(expected), { equalNan: true }));
});
