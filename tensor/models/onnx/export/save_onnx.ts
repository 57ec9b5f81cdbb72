import { saveFile } from "../../../../backend/internal.ts";
import { requireState } from "../../../core/apply.ts";
import { checkOptions, requireValue, type Rules, takes } from "../../../core/rules/options.ts";
import { nodeOf } from "../../../core/internals.ts";
import { Tensor } from "../../../class/tensor.ts";
import type { AnyModule } from "../../../nn/module/module.ts";
import { encodeModel } from "../format/schema.ts";
import { typeOf } from "../format/types.ts";
import { type AxisName, type GraphInput, GraphWriter, type Proto } from "./graph_writer.ts";
import { isUsed, recorded, type RecordedCall, type Used } from "./recording.ts";
import { rows } from "./rows.ts";

/** Options of saving a module. */
export interface SaveOnnxOptions {
  /** For inputs whose axes may have any length: a name for each such axis, null for others. */
  dynamic?: Record<string, (string | null)[]>;
}

const saveRules: Rules<SaveOnnxOptions> = {
  dynamic: takes.object('axes by inputs, such as { x: ["n", null] }'),
};

/** The version of ONNX's operators that are written, and of its format. */
const OPSET = 17, IR_VERSION = 8;

/**
 * Writes a module as a graph of ONNX (version 17 of its operators): what its `forward` does with inputs
 * of these shapes, as in `eval()`. Parameters and buffers keep their names.
 *
 * @param path The file.
 * @param model The module; its outputs are named `output`, or `output0`, `output1`, ..., or as the object
 * names them that `forward` gives.
 * @param inputs The arguments of `forward`, in order, by the names that they get.
 * @param options Which axes may have any length.
 * @throws {TypeError} When an operation has no form in ONNX, or a length no name.
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { loadOnnx, saveOnnx } from "@netcl/netcl/models";
 *
 * const path = await Deno.makeTempFile({ suffix: ".onnx" });
 * const model = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU()), x = Tensor.randn([2, 4]);
 * await saveOnnx(path, model, { x }, { dynamic: { x: ["n"] } });
 * const { output } = (await loadOnnx(path)).run({ x });
 * console.assert(await output!.allClose(model.forward(x)));
 * await Deno.remove(path);
 * ```
 */
export async function saveOnnx(
  path: string | URL,
  model: AnyModule,
  inputs: Record<string, Tensor>,
  options: SaveOnnxOptions = {},
): Promise<void> {
  requireValue("save a model as ONNX", "path", path, takes.path);
  requireState("save a model as ONNX", inputs);
  checkOptions("save a model as ONNX", options, saveRules);
  const { dynamic = {} } = options;
  for (const name of Object.keys(dynamic)) {
    if (Object.hasOwn(inputs, name)) continue;
    throw new RangeError(
      `Cannot save a model as ONNX with axes of "${name}": its inputs are ${Object.keys(inputs)}`,
    );
  }
  await saveFile(path, [asEvaluated(model, () => encodeGraph(model, inputs, dynamic))]);
}

/** Runs a function while no part of a module learns. */
function asEvaluated<T>(model: AnyModule, fn: () => T): T {
  const learning = model.modules().filter((module) => module.training);
  for (const module of learning) module.training = false;
  try {
    return fn();
  } finally {
    for (const module of learning) module.training = true;
  }
}

type Dynamic = Readonly<Record<string, readonly (string | null)[]>>;

function encodeGraph(model: AnyModule, inputs: Record<string, Tensor>, dynamic: Dynamic) {
  const axes = axisNames(inputs, dynamic);
  // In two lengths along axes of any length: what differs then follows from them.
  const [ones, others] = [0, 1].map((run) =>
    Object.entries(inputs).map(([name, x]) => longer(x, dynamic[name] ?? [], axes, run))
  ) as [Tensor[], Tensor[]];
  const isKnown = (name: string) => Object.hasOwn(rows, name);
  for (const [, tensor] of [...model.namedParameters(), ...model.namedBuffers()]) tensor.realize();
  const given = Object.keys(inputs).map((name, k): GraphInput => ({
    name,
    used: { tensor: ones[k]!, node: nodeOf(ones[k]!) },
    dynamic: dynamic[name] ?? [],
  }));
  const first = recorded(() => model.forward(...ones), isKnown);
  const second = axes.length === 0 ? first : recorded(() => model.forward(...others), isKnown);
  const isSame = first.calls.length === second.calls.length &&
    first.calls.every(({ name }, k) => name === second.calls[k]!.name);
  if (!isSame) {
    throw new TypeError(
      "Cannot save the model with axes of any length: other lengths, other operations",
    );
  }
  const weights = [...model.namedParameters(), ...model.namedBuffers()]
    .map(([name, tensor]) => [nodeOf(tensor), name] as const);
  const graph = new GraphWriter(given, new Map(weights), axes, first.makers);
  first.calls.forEach((call, k) => writeCall(graph, call, second.calls[k]!));
  const outputs = namedOutputs(first.result, graph, axes, second.result);
  return encodeModel({
    ir_version: IR_VERSION,
    producer_name: "netcl",
    opset_import: [{ domain: "", version: OPSET }],
    functions: [],
    graph: {
      name: model.constructor.name,
      node: graph.nodes,
      initializer: graph.initializers,
      input: given.map(({ name, used, dynamic }) => valueInfo(name, used, dynamic)),
      output: outputs,
      sparse_initializer: [],
    },
  });
}

/** The second run is so many times as long along each named axis: no multiples of each other. */
const PRIMES = [2, 3, 5, 7, 11, 13, 17, 19];

function axisNames(inputs: Record<string, Tensor>, dynamic: Dynamic): AxisName[] {
  const axes: AxisName[] = [];
  for (const [input, names] of Object.entries(dynamic)) {
    names.forEach((name, axis) => {
      if (name === null || axes.some((known) => known.name === name)) return;
      const length = inputs[input]!.shape[axis];
      if (length === undefined) {
        throw new RangeError(
          `Cannot save a model as ONNX: input "${input}" has ${
            inputs[input]!.ndim
          } axes, and axis ` +
            `${axis} is named "${name}"`,
        );
      }
      // Of an axis of length 1 it is seen less: it broadcasts, and is repeated for nothing.
      const times = PRIMES[axes.length % PRIMES.length]!, first = Math.max(2, length);
      axes.push({ name, input, axis, lengths: [first, first * times] });
    });
  }
  return axes;
}

/** An input as long as a run has it, along its named axes. */
function longer(
  x: Tensor,
  names: readonly (string | null)[],
  axes: readonly AxisName[],
  run: number,
): Tensor {
  return names.reduce((out, name, axis) => {
    const length = axes.find((each) => each.name === name)?.lengths[run];
    if (length === undefined || length === x.shape[axis]) return out;
    return Tensor.concat(new Array<Tensor>(length / x.shape[axis]!).fill(out), axis);
  }, x).realize();
}

function writeCall(graph: GraphWriter, call: RecordedCall, other: RecordedCall): void {
  const outputs = usedIn(call.output);
  // Operations that have nothing to do give what they got.
  if (outputs.every((output) => graph.has(output))) return;
  const others = usedIn(other.args);
  usedIn(call.args).forEach((used, k) => graph.align(used, others[k]!));
  requireSameNumbers(call, other);
  const names = [rows[call.name]!({ graph, call, other })].flat();
  outputs.slice(0, names.length).forEach((output, k) => graph.bind(output, names[k]!));
}

/** Operations whose numbers are lengths: their rows compare the results of both runs. */
const shaping: readonly string[] = [
  "reshape",
  "flatten",
  "unflatten",
  "squeeze",
  "unsqueeze",
  "expand",
  "slice",
  "split",
  "chunk",
  "unbind",
  "interpolate",
];

/** Any other number that an operation is told is one of the graph, whatever lengths there are. */
function requireSameNumbers({ name, args }: RecordedCall, other: RecordedCall): void {
  if (shaping.includes(name)) return;
  const [numbers, others] = [numbersIn(args), numbersIn(other.args)];
  const at = numbers.findIndex((number, k) => !Object.is(number, others[k]));
  if (at < 0) return;
  throw new TypeError(
    `Cannot save the model with axes of any length: ${name} is told ${numbers[at]}, and ` +
      `${others[at]} with other lengths`,
  );
}

function numbersIn(value: unknown): number[] {
  if (typeof value === "number") return [value];
  if (typeof value !== "object" || value === null || isUsed(value)) return [];
  return Object.values(value).flatMap(numbersIn);
}

/** Tensors of a value, in order. */
function usedIn(value: unknown): Used[] {
  if (isUsed(value)) return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(usedIn) : [];
}

function namedOutputs(
  result: unknown,
  graph: GraphWriter,
  axes: readonly AxisName[],
  other: unknown,
): Proto[] {
  const named: [string, Used][] = isUsed(result)
    ? [["output", result]]
    : Array.isArray(result)
    ? usedIn(result).map((used, k) => [`output${k}`, used])
    : Object.entries(result as object).filter(([, part]) => isUsed(part)) as [string, Used][];
  const others = usedIn(other);
  return named.map(([name, used], k) => {
    // An output has a name of its own: what gave it may be a weight or an input.
    graph.align(used, others[k]!);
    const from = graph.name(used);
    graph.nodes.push({ input: [from], output: [name], name, op_type: "Identity", attribute: [] });
    const dynamic = used.tensor.shape.map((n, axis) => {
      if (n === others[k]!.tensor.shape[axis]) return null;
      return axes.find(({ lengths }) => lengths[0] === n)?.name ?? `${name}.${axis}`;
    });
    return valueInfo(name, used, dynamic);
  });
}

function valueInfo(name: string, { tensor }: Used, dynamic: readonly (string | null)[]): Proto {
  const dim = tensor.shape.map((n, axis) =>
    dynamic[axis] ? { dim_param: dynamic[axis] } : { dim_value: n }
  );
  const tensor_type = { elem_type: typeOf(tensor.dtype).number, shape: { dim } };
  return { name, type: { tensor_type } };
}
