import { assert, assertAlmostEquals, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { type DType, DTypeError, noGrad, optim, ShapeError, Tensor } from "../../../../mod.ts";
import { encodeModel } from "../../../../tensor/models/onnx/format/schema.ts";
import { loadOnnx, OnnxModel, parseOnnx } from "../../../../tensor/models/onnx/onnx_model.ts";
import { orderNodes } from "../../../../tensor/models/onnx/ordering.ts";
import { decodeTensor } from "../../../../tensor/models/onnx/format/tensor_proto.ts";
import type { GraphProto, TensorProto } from "../../../../tensor/models/onnx/format/schema.ts";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";
import { testInFolder } from "../../../temporary_folder.ts";
import { testDamage } from "../../io/arbitraries.ts";
import all from "./fixtures/expected.json" with { type: "json" };
import { learn } from "../../training.ts";

interface Listed {
  readonly shape: number[];
  readonly dtype?: string;
  readonly values: number[];
}

const expected = all as unknown as Record<
  string,
  { inputs: Record<string, Listed>; outputs: Listed[] }
>;
const fixture = (name: string): URL => new URL(`./fixtures/${name}.onnx`, import.meta.url);

function inputsOf(name: string): Record<string, Tensor> {
  return Object.fromEntries(
    Object.entries(expected[name]!.inputs).map(([key, { shape, dtype, values }]) => [
      key,
      Tensor.fromHost(values, { shape, dtype: dtype as DType }),
    ]),
  );
}

for (const name of Object.keys(expected)) {
  testOnBackends(`loadOnnx runs ${name}.onnx as onnxruntime does, again and again`, async () => {
    const model = await loadOnnx(fixture(name));
    for (let round = 0; round < 3; round++) {
      const outputs = Object.values(noGrad(() => model.run(inputsOf(name))));
      for (const [k, { shape, values }] of expected[name]!.outputs.entries()) {
        assertEquals(outputs[k]!.shape, shape);
        const numbers = await outputs[k]!.toNumbers();
        values.forEach((v, at) => assertAlmostEquals(numbers[at]!, v, 1e-4 * (1 + Math.abs(v))));
      }
    }
  });
}

testOnBackends("OnnxModel: a graph names its inputs and outputs, and takes any batch", async () => {
  const model = await loadOnnx(fixture("cnn"));
  assertEquals(model.inputs, [{ name: "image", dtype: "float32", shape: ["n", 1, 8, 8] }]);
  assertEquals(model.outputs.map(({ name }) => name), ["classes"]);
  for (const n of [1, 3, 2]) {
    const { classes } = noGrad(() => model.run({ image: Tensor.rand([n, 1, 8, 8]) }));
    assertEquals(classes!.shape, [n, 5]);
    for (const sum of await classes!.sum(1).toNumbers()) assertAlmostEquals(sum, 1, 1e-5);
  }
});

testOnBackends("OnnxModel: weights learn, and are saved under their names", async () => {
  const model = await loadOnnx(fixture("reshape")), inputs = inputsOf("reshape");
  assertEquals(model.namedParameters().map(([name]) => name), ["w"]);
  const optimizer = new optim.SGD(model.parameters(), { lr: 0.01 });
  const losses: number[] = [];
  for (let step = 0; step < 3; step++) {
    const loss = learn(optimizer, model.run(inputs).y!.square().mean());
    losses.push(await loss.item());
  }
  assert(losses[2]! < losses[0]!, `${losses}`);
  // What replays sees the weights as they are now.
  const { y } = noGrad(() => model.run(inputs));
  assert(await y!.square().mean().item() < losses[2]!);
  assertEquals(Object.keys(model.stateDict()), ["w"]);
});

testOnCPU("OnnxModel names an input that is missing, unknown, or does not fit", async () => {
  const model = await loadOnnx(fixture("cnn")), image = Tensor.zeros([1, 1, 8, 8]);
  assertThrows(() => model.run({}), RangeError, 'without the input "image"');
  assertThrows(() => model.run({ image, other: image }), RangeError, 'an input "other"');
  assertThrows(() => model.run({ image: Tensor.zeros([1, 1, 8]) }), ShapeError, "[n, 1, 8, 8]");
  assertThrows(() => model.run({ image: image.cast("int32") }), DTypeError, 'cast("float32")');
});

Deno.test("loadOnnx names all kinds of nodes that are not run, in one error", async () => {
  const { message } = await assertRejects(() => loadOnnx(fixture("refused")), FileFormatError);
  assert(
    message.includes('com.example.Foo ("first", "third"); StringNormalizer ("second")'),
    message,
  );
  assert(message.includes("2 kinds") && message.includes("refused.onnx"), message);
});

Deno.test("parseOnnx names a value that is used before it is made, also within graphs", () => {
  const inner = (input: string) => ({ node: [node("Neg", input, "b")], output: [{ name: "b" }] });
  const choice = (input: string) => ({
    ...node("If", "x", "z"),
    attribute: [{ name: "then_branch", type: 5, g: inner(input) }],
  });
  const parse = (nodes: unknown[], output = "y", functions: unknown[] = []) =>
    parseOnnx(encoded(nodes, output, functions));
  parse([node("Neg", "x", "y"), choice("y")], "z");
  const refused: [unknown[], string, string][] = [
    [[node("Neg", "y", "y")], "y", 'Node "y" (Neg) uses "y"'],
    [[choice("lost"), node("Neg", "x", "y")], "y", '(Neg) uses "lost"'],
    [[node("Neg", "x", "y")], "z", 'The output "z" of the graph'],
  ];
  for (const [nodes, output, says] of refused) {
    assertThrows(() => parse(nodes, output), FileFormatError, says);
  }
  const fn = { name: "F", domain: "own", input: ["a"], output: ["b"], node: [] };
  assertThrows(() => parse([node("Neg", "x", "y")], "y", [fn]), FileFormatError, 'function "F"');
});

testOnCPU("parseOnnx puts nodes in order that a program has not, and finds circles", async () => {
  const chain = [node("Neg", "b", "y"), node("Exp", "a", "b"), node("Abs", "x", "a")];
  const model = parseOnnx(encoded(chain));
  assertEquals(model.graph!.node.map(({ op_type }) => op_type), ["Abs", "Exp", "Neg"]);
  const { y } = noGrad(() => new OnnxModel(model).run({ x: Tensor.fromHost([-1, 0]) }));
  assertEquals((await y!.toNumbers()).map(Math.round), [-3, -1]);
  const circle = [node("Neg", "b", "y"), node("Exp", "y", "b")];
  assertThrows(() => parseOnnx(encoded(circle)), FileFormatError, "nothing before it makes");
  const many = Array.from({ length: 200_000 }, (_, k) => `${k}`);
  const sum = { op_type: "Sum", input: many, output: ["y"] };
  const nodes = [sum, ...many.map((name) => node("Neg", "x", name))];
  const wide = { node: nodes.map((each) => ({ ...each, attribute: [] })) } as unknown as GraphProto;
  orderNodes(wide);
  assertEquals(wide.node.at(-1)!.op_type, "Sum");
});

const node = (op_type: string, input: string, output: string) => ({
  op_type,
  input: [input],
  output: [output],
});

/** The bytes of a graph from "x". */
function encoded(nodes: unknown[], output = "y", functions: unknown[] = []) {
  const graph = { node: nodes, input: [{ name: "x" }], output: [{ name: output }] };
  return encodeModel({ opset_import: [{ version: 17 }], graph, functions });
}

testInFolder("loadOnnx reads no weights from elsewhere than beside the file", async (folder) => {
  const bytes = await Deno.readFile(fixture("reshape"));
  const text = new TextDecoder("latin1").decode(bytes), at = text.indexOf("reshape.bin");
  for (const [name, says] of [["../secret.b", "not beside"], ["/etc/passwd", "not beside"]]) {
    bytes.set(new TextEncoder().encode(name!.padEnd(11, "x")), at);
    await Deno.writeFile(`${folder}/x.onnx`, bytes);
    await assertRejects(() => loadOnnx(`${folder}/x.onnx`), FileFormatError, says!);
  }
});

Deno.test("loadOnnx reads weights beside the file from whole places only", () => {
  const at = (offset: string, length: string) =>
    decodeTensor({
      dims: [1],
      data_type: 1,
      data_location: 1,
      external_data: Object.entries({ location: "a", offset, length })
        .map(([key, value]) => ({ key, value })),
    } as unknown as TensorProto, () => new Uint8Array(8));
  assertEquals(at("4", "4").data.length, 1);
  for (
    const [offset, length] of [["0.5", "4"], ["0", "4.5"], ["-1", "4"], ["6", "4"], ["x", "4"]]
  ) {
    assertThrows(() => at(offset!, length!), FileFormatError, "lies beyond the end");
  }
});

const files = () =>
  [...Object.keys(expected), "cnn", "refused"].map((name) => Deno.readFileSync(fixture(name)));
testDamage("parseOnnx", files, parseOnnx, 1000);
