/**
 * ONNX: graphs of other programs, read and run, and modules of this one written.
 *
 * This folder (`onnx/`) has the model and its graph. It imports `format/`, `core/` and `operators/` below
 * it, `compile/` and `nn/module/`; `export/` writes such files.
 */
import { type DType, isFloat, manager, withDevice } from "../../../backend/internal.ts";
import { compile } from "../../compile/compile.ts";
import { requireTensor } from "../../core/apply.ts";
import { isObserved } from "../../core/calls.ts";
import { nodeOf } from "../../core/internals.ts";
import { compute } from "../../core/operations.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { dtypeError, shapeError } from "../../core/rules/errors.ts";
import { checkOptions } from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import { realizeAll } from "../../execution/realization.ts";
import { readWhole } from "../../io/core/file.ts";
import { FileFormatError, readingFile, shown } from "../../io/core/file_format_error.ts";
import { type LoadOptions, loadRules } from "../../io/core/load_options.ts";
import { Module } from "../../nn/module/module.ts";
import { buffer, parameter } from "../../nn/module/parameter.ts";
import { type OnnxData, Value } from "./core/value.ts";
import {
  decodeModel,
  type GraphProto,
  type ModelProto,
  type NodeProto,
  type ValueInfoProto,
} from "./format/schema.ts";
import { decodeTensor, type ExternalData } from "./format/tensor_proto.ts";
import { type OnnxType, typeByNumber, typeName } from "./format/types.ts";
import { type FoldedGraph, foldGraph } from "./folding.ts";
import { checkNames, checkOperators } from "./checks.ts";
import { GraphRunner } from "./graph_runner.ts";
import { orderNodes } from "./ordering.ts";
import { crossed, type SplitGraph, splitGraph } from "./splitting.ts";

/** An input or output of a graph. */
export interface OnnxValue {
  /** Its name. */
  readonly name: string;
  /** Its element type in the file, such as "float32" or "int8". */
  readonly dtype: string;
  /** The length of each axis: a number, or a name for one that may be any. */
  readonly shape: readonly (number | string)[];
}

/** Kinds whose constants say what is done, and are not learned. */
const settingKinds =
  /^(Resize|Upsample|Pad|Clip|Range|.*Linear.*|.*Integer|.*Random.*|OneHot|Tile)$/;

/**
 * A graph of ONNX: named tensors in, named tensors out. Its weights are parameters, under their names
 * in the file; it is differentiable where its operators are.
 *
 * Without gradients (`noGrad`), calls with shapes that were met before replay their launches, up to what
 * depends on values that are read on the way, such as a count of boxes: that is followed anew.
 */
export class OnnxModel extends Module<[Record<string, Tensor>], Record<string, Tensor>> {
  /** The arguments of `run`, in the order of the file. */
  readonly inputs: readonly OnnxValue[];
  /** The results of `run`. */
  readonly outputs: readonly OnnxValue[];
  /** Parameters and buffers by their names in the file. */
  readonly weights: Record<string, Tensor>;
  readonly #runner: GraphRunner;
  readonly #types: ReadonlyMap<string, OnnxType>;
  readonly #constants: ReadonlyMap<string, Value>;
  /** The part that is replayed and the rest, by the inputs' shapes. */
  readonly #splits = new Map<string, SplitGraph>();
  /** That of the call that goes on. */
  #split: SplitGraph | null = null;
  readonly #graph: GraphProto;
  /** The graph without what follows from weights alone, and the device and weights that it was made of. */
  #folded: FoldedGraph | null = null;
  #foldedFrom: readonly unknown[] = [];
  readonly #replay: (inputs: Record<string, Tensor>) => Record<string, Tensor>;

  /** Made by {@linkcode loadOnnx}. */
  constructor(model: ModelProto, external?: ExternalData) {
    super();
    const graph = model.graph!, initial = new Set(graph.initializer.map(({ name }) => name));
    this.inputs = graph.input.filter(({ name }) => !initial.has(name)).map(describe);
    this.outputs = graph.output.map(describe);
    this.#types = new Map(graph.input.map((info) => [info.name ?? "", tensorTypeOf(info)]));
    this.#runner = new GraphRunner(model);
    const { weights, constants } = initialValues(graph, external);
    this.weights = weights;
    this.#constants = constants;
    this.#graph = graph;
    // One operation, for compile(): of what it is made follows from the shapes of the inputs.
    const steady = (inputs: Record<string, Tensor>, _operands: readonly Tensor[]) =>
      this.#crossing(inputs);
    this.#replay = compile((inputs) => compute(steady, inputs, this.#folded!.operands));
  }

  /** Weights have the names of the file. */
  protected override stateName(property: string): string {
    return property === "weights" ? "" : super.stateName(property);
  }

  /** Computes the outputs; see {@linkcode OnnxModel.run}. */
  forward(inputs: Record<string, Tensor>): Record<string, Tensor> {
    return this.run(inputs);
  }

  /**
   * Computes the outputs, lazily.
   *
   * @param inputs A tensor for each input, by name; uint16 as int32, uint64 as int64.
   * @returns A tensor for each output, by name.
   * @throws {RangeError} When a name is missing or not known.
   * @throws {ShapeError} When a shape is not that of the file.
   * @throws {DTypeError} When an element type is not.
   */
  run(inputs: Record<string, Tensor>): Record<string, Tensor> {
    checkInputs(this.inputs, inputs, this.#types);
    const device = Object.values(inputs)[0]?.device ?? manager.active;
    return withDevice(device, () => {
      // Within another compiled function the graph is part of that; and a file may give values that
      // stand for inputs which are left out.
      const isWhole = Object.keys(inputs).length > this.inputs.length;
      if (isGradEnabled() || isObserved() || isWhole) {
        return this.#named(this.#runner.run([...this.#initial(), ...this.#given(inputs)]));
      }
      const folded = this.#foldedNow();
      const key = Object.values(inputs).map(({ shape }) => shape.join()).join(";");
      const split = this.#splits.get(key);
      return split ? this.#inParts(inputs, folded, split) : this.#first(inputs, folded, key);
    });
  }

  /** The first call with such shapes, which tells what reads values. */
  #first(
    inputs: Record<string, Tensor>,
    { known, nodes }: FoldedGraph,
    key: string,
  ): Record<string, Tensor> {
    const { valueOf, reading } = this.#runner.follow(nodes, [...known, ...this.#given(inputs)]);
    const names = this.outputs.map(({ name }) => name);
    this.#splits.set(key, splitGraph(nodes, reading, names, valueOf));
    return this.#named(names.map(valueOf));
  }

  /** Replays what it can, and follows the rest. */
  #inParts(
    inputs: Record<string, Tensor>,
    { known }: FoldedGraph,
    split: SplitGraph,
  ): Record<string, Tensor> {
    this.#split = split;
    const tensors = split.crossing.size > 0 ? this.#replay(inputs) : {};
    const values = [...known, ...this.#given(inputs), ...crossed(split, tensors)];
    return this.#named(this.#runner.run(values, split.rest));
  }

  #crossing(inputs: Record<string, Tensor>): Record<string, Tensor> {
    const { steady, crossing } = this.#split!, { known } = this.#folded!;
    const { valueOf } = this.#runner.follow(steady, [...known, ...this.#given(inputs)]);
    return Object.fromEntries(
      [...crossing.keys()].map((name) => [name, (valueOf(name) as Value).tensor]),
    );
  }

  /** Ends the weights, and what was computed of them. */
  override dispose(): void {
    super.dispose();
    this.#forgetFolded();
  }

  #forgetFolded(): void {
    for (const tensor of this.#folded?.made ?? []) tensor.dispose();
    this.#folded = null;
  }

  /** The rest of the graph with the weights as they are now. */
  #foldedNow(): FoldedGraph {
    const weights = Object.values(this.weights), { active } = manager;
    const isSame = (value: unknown, k: number): boolean => value === this.#foldedFrom[k];
    if (this.#folded && isSame(active, 0) && weights.every((w, k) => isSame(nodeOf(w), k + 1))) {
      return this.#folded;
    }
    realizeAll(weights);
    this.#forgetFolded();
    this.#splits.clear();
    this.#foldedFrom = [active, ...weights.map(nodeOf)];
    return this.#folded = foldGraph(this.#graph, this.#runner, new Map(this.#initial()));
  }

  /** Weights and constants, by name. */
  #initial(): [string, OnnxData][] {
    const weights = Object.entries(this.weights)
      .map(([name, tensor]): [string, OnnxData] => [name, Value.of(tensor)]);
    return [...this.#constants, ...weights];
  }

  #given(inputs: Record<string, Tensor>): [string, OnnxData][] {
    return Object.entries(inputs).map(([name, tensor]) => [
      name,
      Value.of(tensor, this.#types.get(name)!),
    ]);
  }

  /** Outputs by name. Those that are kept for later calls stay, whatever becomes of what a caller gets. */
  #named(outputs: readonly OnnxData[]): Record<string, Tensor> {
    const own = (name: string, value: OnnxData): Tensor => {
      if (!(value instanceof Value)) {
        throw new TypeError(
          `Cannot give output "${name}": it is a sequence or missing, and no tensor`,
        );
      }
      const { tensor } = value, isKept = value.isOnHost || this.#folded?.made.includes(tensor);
      return isKept ? tensor.detach() : tensor;
    };
    return Object.fromEntries(this.outputs.map(({ name }, k) => [name, own(name, outputs[k]!)]));
  }
}

function tensorTypeOf({ type }: ValueInfoProto): OnnxType {
  return typeByNumber(type?.tensor_type?.elem_type ?? 1);
}

function describe(info: ValueInfoProto, index: number): OnnxValue {
  const { tensor_type } = info.type ?? {};
  const shape = (tensor_type?.shape?.dim ?? []).map(({ dim_value = -1, dim_param }, axis) => {
    if (dim_value >= 0 && !dim_param) return dim_value;
    // Some programs write -1 or "?" for any length, which is no name of one.
    return dim_param && dim_param !== "?" ? dim_param : `${info.name ?? index}.${axis}`;
  });
  return { name: info.name ?? "", dtype: typeName(tensor_type?.elem_type ?? 0), shape };
}

/** Parameters and buffers, and what is neither: tables and settings. */
function initialValues(graph: GraphProto, external?: ExternalData) {
  const uses = new Map<string, { kind: string; input: number }[]>();
  const note = ({ op_type = "", input, attribute }: NodeProto): void => {
    input.forEach((name, k) => {
      const use = { kind: op_type, input: k };
      uses.get(name)?.push(use) ?? uses.set(name, [use]);
    });
    for (const { g } of attribute) g?.node.forEach(note);
  };
  graph.node.forEach(note);
  const weights: Record<string, Tensor> = {}, constants = new Map<string, Value>();
  for (const proto of graph.initializer) {
    const name = proto.name ?? "",
      array = decodeTensor(proto, external),
      used = uses.get(name) ?? [];
    const isSetting = used.length === 0 || used.some(({ kind }) => settingKinds.test(kind));
    if (!isFloat(array.dtype) || array.shape.length === 0 || isSetting) {
      constants.set(name, Value.ofArray(array, array.type));
      continue;
    }
    const isStatistic = used.some(({ kind, input }) => kind === "BatchNormalization" && input > 2);
    const tensor = Tensor.fromHost(array.data, { shape: array.shape, dtype: array.dtype });
    weights[name] = isStatistic ? buffer(tensor) : parameter(tensor);
  }
  return { weights, constants };
}

function checkInputs(
  wanted: readonly OnnxValue[],
  given: Record<string, Tensor>,
  types: ReadonlyMap<string, OnnxType>,
): void {
  const names = wanted.map(({ name }) => name).join(", "), lengths = new Map<string, number>();
  for (const name of Object.keys(given)) {
    if (types.has(name)) continue;
    throw new RangeError(`Cannot run the graph with an input "${name}": its inputs are ${names}`);
  }
  for (const { name, dtype, shape } of wanted) {
    const tensor = given[name];
    if (tensor === undefined) {
      throw new RangeError(
        `Cannot run the graph without the input "${name}": its inputs are ${names}`,
      );
    }
    requireTensor(`run the graph's input "${name}"`, tensor);
    const held: DType = types.get(name)!.dtype;
    if (tensor.dtype !== held) {
      throw dtypeError("OnnxModel")`
        Cannot run the graph: input "${name}" is ${dtype}, got ${tensor.dtype}; cast it with
        .cast("${held}")`;
    }
    const fits = shape.length === 0 || shape.length === tensor.ndim && shape.every((n, axis) => {
          const length = tensor.shape[axis]!, known = typeof n === "number" ? n : lengths.get(n);
          if (typeof n === "string") lengths.set(n, length);
          return known === undefined || known === length;
        });
    if (fits) continue;
    throw shapeError("OnnxModel")`
      Cannot run the graph: input "${name}" has the shape [${shape.join(", ")}], got
      ${tensor.shape}`;
  }
}

/**
 * Reads a graph of ONNX (.onnx): operators of versions 7 to 22 and later, as far as the table in the
 * guide says; weights also from files beside it.
 *
 * @param path The file.
 * @param options Where its weights are put.
 * @returns The model, to be run, trained or saved.
 * @throws {FileFormatError} For a file that is damaged, or has operators that are not run: all of them are
 * named.
 *
 * @example
 * ```ts ignore
 * import { loadImage, noGrad } from "@netcl/netcl";
 * import { loadOnnx } from "@netcl/netcl/models";
 *
 * const model = await loadOnnx("classifier.onnx");
 * const image = (await loadImage("cat.jpg")).cast("float32").div(255).unsqueeze(0);
 * const { scores } = noGrad(() => model.run({ image }));
 * console.log(await scores!.argmax(1).toNumbers());
 * ```
 */
export function loadOnnx(path: string | URL, options: LoadOptions = {}): Promise<OnnxModel> {
  checkOptions("load an ONNX file", options, loadRules);
  return readingFile(path, async () => {
    const model = parseOnnx(await readWhole(path)), external = await readExternal(path, model);
    return withDevice(options.device ?? manager.active, () => new OnnxModel(model, external));
  });
}

/**
 * The contents of an ONNX file, checked as far as that can be done without running it.
 *
 * @throws {FileFormatError} As {@linkcode loadOnnx} does.
 */
export function parseOnnx(bytes: Uint8Array<ArrayBuffer>): ModelProto {
  const model = decodeModel(bytes);
  if (!model.graph || model.graph.node.length + model.graph.output.length === 0) {
    throw new FileFormatError("This is no ONNX file: it has no graph");
  }
  if (model.graph.sparse_initializer.length > 0) {
    throw new FileFormatError("The graph has sparse weights, which are not read");
  }
  checkOperators(model);
  orderNodes(model.graph);
  checkNames(model);
  hoistConstants(model.graph);
  return model;
}

/** Some programs write weights as nodes: those of the outermost graph are initial values as others. */
function hoistConstants(graph: GraphProto): void {
  const valueOf = ({ op_type, attribute }: NodeProto) =>
    op_type === "Constant" ? attribute.find(({ name }) => name === "value")?.t : undefined;
  for (const node of graph.node) {
    const tensor = valueOf(node);
    if (tensor) graph.initializer.push({ ...tensor, name: node.output[0] ?? "" });
  }
  graph.node = graph.node.filter((node) => valueOf(node) === undefined);
}

/** The files beside the model that hold weights of it. */
async function readExternal(path: string | URL, model: ModelProto): Promise<ExternalData> {
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for (const { data_location, external_data } of model.graph!.initializer) {
    const location = external_data.find(({ key }) => key === "location")?.value;
    if (data_location !== 1 || location === undefined || files.has(location)) continue;
    if (/(^|[\\/])\.\.([\\/]|$)|^[\\/]|:/.test(location)) {
      throw new FileFormatError(`Weights lie at ${shown(location)}, which is not beside the file`);
    }
    const beside = path instanceof URL
      ? new URL(encodeURI(location), path)
      : `${/^(.*[\\/])?/.exec(path)![0]}${location}`;
    files.set(location, await readWhole(beside));
  }
  return (location) => {
    const bytes = files.get(location);
    if (bytes) return bytes;
    throw new FileFormatError(`Weights lie in ${shown(location)}, which was not read`);
  };
}
