import { assert, assertEquals } from "@std/assert";
import { noGrad, Tensor } from "../../../../mod.ts";
import { reads, Value } from "../../../../tensor/models/onnx/core/value.ts";
import { encodeModel, type NodeProto } from "../../../../tensor/models/onnx/format/schema.ts";
import { encodeTensor } from "../../../../tensor/models/onnx/format/tensor_proto.ts";
import { OnnxModel, parseOnnx } from "../../../../tensor/models/onnx/onnx_model.ts";
import { splitGraph } from "../../../../tensor/models/onnx/splitting.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";

type Node = Pick<NodeProto, "op_type" | "input" | "output">;

const node = (op_type: string, input: string, output: string): Node => ({
  op_type,
  input: input.split(" "),
  output: output.split(" "),
});

/** A detector in small: features, the places of the large ones, and what lies there. */
const nodes = [
  node("MatMul", "x w", "product"),
  node("Tanh", "product", "features"),
  node("Shape", "features", "shape"),
  node("Greater", "features limit", "hits"),
  node("NonZero", "hits", "places"),
  node("Transpose", "places", "rows"),
  node("GatherND", "features rows", "found"),
  node("Sqrt", "hits2", "roots"),
  node("Mul", "features features", "hits2"),
].toSorted((a, b) => Number(a.op_type === "Sqrt") - Number(b.op_type === "Sqrt"));

const value = (name: string, elem_type: number, shape: (number | string)[]) => ({
  name,
  type: {
    tensor_type: {
      elem_type,
      shape: { dim: shape.map((n) => typeof n === "number" ? { dim_value: n } : { dim_param: n }) },
    },
  },
});

function detector(): OnnxModel {
  const w = Float32Array.from({ length: 12 }, (_, k) => Math.sin(k));
  const limit = { data: Float32Array.of(0.2), shape: [], dtype: "float32" } as const;
  const graph = {
    node: nodes,
    initializer: [
      encodeTensor("w", { data: w, shape: [3, 4], dtype: "float32" }),
      encodeTensor("limit", limit),
    ],
    input: [value("x", 1, ["n", 3])],
    output: [value("found", 1, ["k"]), value("roots", 1, ["n", 4]), value("shape", 7, [2])],
  };
  return new OnnxModel(parseOnnx(encodeModel({ opset_import: [{ version: 17 }], graph })));
}

testOnCPU("splitGraph leaves what depends on values that are read, keeps the known", () => {
  const all = nodes as NodeProto[], reading = new Set(all.filter((n) => n.op_type === "NonZero"));
  const tensor = Value.of(Tensor.ones([2])), host = Value.ofNumbers(tensor.type, [2], [5, 4]);
  const { steady, rest, crossing, known } = splitGraph(
    all.map((n) => ({ ...n, attribute: [] })),
    new Set(),
    [],
    () => tensor,
  );
  assertEquals([steady.length, rest.length, crossing.size, known.size], [9, 0, 0, 0]);
  const split = splitGraph(all.map((n) => Object.assign(n, { attribute: [] })), reading, [
    "found",
    "roots",
    "shape",
  ], (name) => name === "shape" ? host : tensor);
  assertEquals(split.rest.map((n) => n.op_type), ["NonZero", "Transpose", "GatherND"]);
  assertEquals([...split.crossing.keys()], ["features", "hits", "roots"]);
  assertEquals([...split.known.keys()], ["shape"]);
});

testOnBackends("OnnxModel replays what comes before a value that is read", async () => {
  const model = detector();
  const expected = async (x: Tensor) => {
    const features = x.matmul(model.weights.w!).tanh();
    const all = (await features.toNumbers()).filter((v) => v > Math.fround(0.2));
    return [all, await features.square().sqrt().toNumbers()];
  };
  for (let round = 0; round < 6; round++) {
    const x = Tensor.randn([5, 3]), before = reads.count;
    const { found, roots, shape } = noGrad(() => model.run({ x }));
    assertEquals(await shape!.toNumbers(), [5, 4]);
    const [wanted, rooted] = await noGrad(() => expected(x));
    assertEquals(found!.shape, [wanted!.length], `round ${round}`);
    for (const [k, v] of (await found!.toNumbers()).entries()) {
      assert(Math.abs(v - wanted![k]!) < 1e-5);
    }
    for (const [k, v] of (await roots!.toNumbers()).entries()) {
      assert(Math.abs(v - rooted![k]!) < 1e-5);
    }
    assert(reads.count > before, "the count of what is found is read");
    // What the model keeps for later calls stays.
    for (const tensor of [found!, roots!, shape!]) tensor.dispose();
  }
  // New weights, and other shapes, are seen.
  model.weights.w!.assign(model.weights.w!.neg());
  for (const n of [5, 2, 2, 2]) {
    const x = Tensor.randn([n, 3]), [wanted] = await noGrad(() => expected(x));
    assertEquals(noGrad(() => model.run({ x })).found!.shape, [wanted!.length]);
  }
});
