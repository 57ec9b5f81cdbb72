// The cases of the project ONNX (PyPI onnx, backend/test/data): a graph, its inputs, its outputs.
import { noGrad, type Tensor, withDevice } from "../../mod.ts";
import { Value } from "../../tensor/models/onnx/core/value.ts";
import { decodeMessage, type Message } from "../../tensor/models/onnx/format/protobuf.ts";
import type { ModelProto, TensorProto, TypeProto } from "../../tensor/models/onnx/format/schema.ts";
import { decodeTensorProto } from "../../tensor/models/onnx/format/schema.ts";
import { decodeTensor, type OnnxArray } from "../../tensor/models/onnx/format/tensor_proto.ts";
import { GraphRunner } from "../../tensor/models/onnx/graph_runner.ts";
import { OnnxModel, parseOnnx } from "../../tensor/models/onnx/onnx_model.ts";
import { random } from "../../tensor/models/onnx/operators/random.ts";
import type { OnnxData } from "../../tensor/models/onnx/core/value.ts";

/** An array, a list of them, or none. */
type Expected = OnnxArray | Expected[] | null;

/** The end of a case. */
export type Outcome =
  | { readonly kind: "met" }
  /** It needs what is not run, which the error says. */
  | { readonly kind: "refused"; readonly why: string }
  | { readonly kind: "failed"; readonly why: string };

const groups = ["node", "simple", "pytorch-converted", "pytorch-operator"];

/** A case: its name, its graph, its sets of data. */
export interface Case {
  readonly name: string;
  readonly model: string;
  readonly sets: readonly string[];
}

/** All cases below a folder. */
export function casesIn(folder: string): Case[] {
  const cases = groups.flatMap((group) =>
    [...Deno.readDirSync(`${folder}/${group}`)].filter((entry) => entry.isDirectory)
      .map(({ name }): Case => {
        const at = `${folder}/${group}/${name}`;
        const sets = [...Deno.readDirSync(at)].filter((entry) => entry.isDirectory)
          .map((entry) => `${at}/${entry.name}`);
        return { name: `${group}/${name}`, model: `${at}/model.onnx`, sets };
      })
  );
  const light = [...Deno.readDirSync(`${folder}/light`)].filter(({ name }) =>
    name.endsWith(".onnx")
  );
  for (const { name } of light) {
    cases.push({ name: `light/${name}`, model: `${folder}/light/${name}`, sets: [] });
  }
  return cases.sort((a, b) => a.name < b.name ? -1 : 1);
}

const sequence: Message = { 3: ["tensors", "bytesList"], 5: ["sequences", "bytesList"] };
const optional: Message = { 3: ["tensor", "bytes"], 5: ["sequence", "bytes"] };

function decodeData(bytes: Uint8Array<ArrayBuffer>, type: TypeProto | undefined): Expected {
  if (type?.sequence_type) {
    const { tensors, sequences } = decodeMessage(bytes, sequence) as Record<
      string,
      Uint8Array<ArrayBuffer>[]
    >;
    const inner = type.sequence_type.elem_type;
    return [...tensors!, ...sequences!].map((part) => decodeData(part, inner));
  }
  if (type?.optional_type) {
    const found = decodeMessage(bytes, optional) as Record<
      string,
      Uint8Array<ArrayBuffer> | undefined
    >;
    const part = found.tensor ?? found.sequence;
    return part ? decodeData(part, type.optional_type.elem_type) : null;
  }
  return decodeTensor(decodeTensorProto(bytes) as TensorProto);
}

function asData(expected: Expected): OnnxData {
  if (expected === null) return null;
  return Array.isArray(expected) ? expected.map(asData) : Value.ofArray(expected, expected.type);
}

/** Runs a case on a backend. */
export function runCase(backend: string, { model: path, sets }: Case): Outcome {
  try {
    return withDevice(backend, () => {
      const model = parseOnnx(Deno.readFileSync(path));
      if (sets.length === 0) return runLight(model, path);
      const faults = sets.map((set) => faultOf(model, set)).filter((fault) => fault !== null);
      return faults.length === 0 ? { kind: "met" } : { kind: "failed", why: faults[0]! };
    });
  } catch (error) {
    const { message } = error as Error;
    return {
      kind: /not run|not read|no type to quantize|with elements of/.test(message)
        ? "refused"
        : "failed",
      why: message,
    };
  }
}

function faultOf(model: ModelProto, set: string): string | null {
  const graph = model.graph!, initial = new Set(graph.initializer.map(({ name }) => name));
  const read = (kind: string, k: number, type: TypeProto | undefined): Expected => {
    const bytes = Deno.readFileSync(`${set}/${kind}_${k}.pb`);
    return decodeData(bytes, type);
  };
  const own = graph.input.filter(({ name }) => !initial.has(name));
  const inputs = own.map(({ name, type }, k) => [name!, read("input", k, type)] as const);
  const expected = graph.output.map(({ type }, k) => read("output", k, type));
  const isRandom = graph.node.some(({ op_type = "" }) => Object.hasOwn(random, op_type));
  for (const given of resultsOf(model, inputs)) {
    for (const [k, value] of expected.entries()) {
      const fault = difference(given[k]!, value, isRandom);
      if (fault !== null) return `${graph.output[k]!.name}: ${fault}`;
    }
  }
  return null;
}

/** Results as a user gets them, recorded and replayed; graphs of lists are run by their runner. */
function* resultsOf(model: ModelProto, inputs: readonly (readonly [string, Expected])[]) {
  const isTensor = (each: Expected) => each !== null && !Array.isArray(each);
  const graph = model.graph!, all = [...graph.input, ...graph.output];
  if (!inputs.every(([, each]) => isTensor(each)) || all.some(({ type }) => !type?.tensor_type)) {
    const known = graph.initializer.map((proto) => {
      const array = decodeTensor(proto);
      return [proto.name!, Value.ofArray(array, array.type)] as const;
    });
    const given = inputs.map(([name, each]) => [name, asData(each)] as const);
    yield new GraphRunner(model).run([...known, ...given]);
    return;
  }
  const loaded = new OnnxModel(model);
  const tensors = () =>
    Object.fromEntries(inputs.map(([name, each]) => [name, (asData(each) as Value).tensor]));
  for (let round = 0; round < 2; round++) {
    const outputs: Record<string, Tensor> = noGrad(() => loaded.run(tensors()));
    yield loaded.outputs.map(({ name }) => Value.of(outputs[name]!));
  }
}

/** A whole architecture, whose one input is all ones scaled, as the project made its outputs. */
function runLight(model: ModelProto, path: string): Outcome {
  const loaded = new OnnxModel(model), [input] = loaded.inputs, [output] = loaded.outputs;
  const shape = input!.shape.map((n) => typeof n === "number" ? n : 1);
  const size = shape.reduce((a, b) => a * b, 1);
  const data = Float32Array.from({ length: size }, (_, k) => k / size);
  const array = { data, shape, dtype: "float32" } as const;
  const given = noGrad(() => loaded.run({ [input!.name]: Value.ofArray(array).tensor }));
  const expected = decodeTensor(
    decodeTensorProto(Deno.readFileSync(path.replace(/\.onnx$/, "_output_0.pb"))),
  );
  const fault = difference(Value.of(given[output!.name]!), expected);
  return fault === null ? { kind: "met" } : { kind: "failed", why: fault };
}

/** The most that results may be off, as the project's own runner has it; halves have 11 bits or 8. */
const tolerances: Readonly<Record<string, number>> = { float16: 1e-2, bfloat16: 2e-2 };

/** Tells how a value is another one; of random ones the shape and the type are compared. */
function difference(given: OnnxData, expected: Expected, isRandom = false): string | null {
  if (expected === null) return given === null ? null : "something where nothing is due";
  if (Array.isArray(expected)) {
    if (!Array.isArray(given) || given.length !== expected.length) return "another list";
    return expected.map((each, k) => difference(given[k]!, each, isRandom)).find((f) =>
      f !== null
    ) ?? null;
  }
  if (!(given instanceof Value)) return "no tensor";
  if (String(given.shape) !== String(expected.shape)) {
    return `shape [${given.shape}], expected [${expected.shape}]`;
  }
  if (given.type.dtype !== expected.type.dtype) {
    return `${given.type.dtype}, expected ${expected.type.dtype}`;
  }
  if (isRandom) return null;
  const numbers = given.numbers(), rtol = tolerances[expected.dtype] ?? 1e-3;
  const isFloat = expected.dtype.includes("float");
  for (
    const [k, value] of Array.from(expected.data as ArrayLike<number | bigint>, Number).entries()
  ) {
    const own = numbers[k]!, room = isFloat ? 1e-5 + rtol * Math.abs(value) : 0;
    const isSame = own === value || Number.isNaN(own) && Number.isNaN(value);
    if (!isSame && !(Math.abs(own - value) <= room)) return `${own} at ${k}, expected ${value}`;
  }
  return null;
}
