/**
 * Calls of all public functions, with arguments made from the names and types of their parameters: with
 * options of any kind, and with a value of a wrong type in each place.
 */
import * as root from "../../mod.ts";
import * as backend from "../../backend/mod.ts";
import * as ffi from "../../ffi/mod.ts";
import * as memory from "../../memory/mod.ts";
import * as models from "../../tensor/models/mod.ts";
import { ModelBatch } from "../../tensor/models/language/batch.ts";
import { CachedChat } from "../../tensor/models/language/chat.ts";
import {
  type Callable,
  callables,
  type Parameter,
  publicDeclarations,
  type Type,
  typeOf,
} from "./declarations.ts";
import { isOptions, optionRecords } from "./option_parameters.ts";

// deno-lint-ignore no-explicit-any -- what a caller without types may pass
export type Untyped = any;

/** A call of a function with the given options. */
export type Call = (options: Untyped) => unknown;

const { HostPool, DeviceMemory, FaultPool, GuardPool, LimitPool, PoolWrapper } = memory;
const { distributed, fft, nn, optim, Tensor } = root;
const all: Untyped = { ...memory, ...ffi, ...backend, ...models, ...root };
const host = () => new HostPool();
const layer = () => new nn.TransformerDecoderLayer(2, 1, { dimFeedforward: 2 });
const encoder = () => new nn.TransformerEncoderLayer(2, 1, { dimFeedforward: 2 });
const matrix = () => Tensor.ones([2, 2]), images = () => Tensor.ones([1, 1, 4, 4]);
const labels = () => Tensor.zeros([1], { dtype: "int32" });
const leaf = (): root.Tensor => Tensor.ones([2, 2], { requiresGrad: true });
const sgd = () => new optim.SGD([leaf()], { lr: 0.1 });
// What computes first begins to listen to signals, which is no leak of a test.
const linear = root.withDevice("cpu", () => new nn.Linear(2, 2));
const samples = { length: 4, get: () => [] };

/** Arguments by the name of their parameter. */
const byName: Readonly<Record<string, () => Untyped>> = {
  axis: () => 0,
  low: () => 0,
  high: () => 1,
  q: () => 0.5,
  ord: () => "fro",
  dtype: () => "float16",
  nonlinearity: () => "leakyRelu",
  selector: () => "cpu",
  format: () => "png",
  shape: () => [2, 2],
  count: () => 1,
  bins: () => [2, 2],
  parts: () => [2, 2],
  bytes: () => new Uint8Array(),
  parameters: () => [leaf()],
  tensors: () => [leaf()],
  spectra: () => new fft.ComplexTensor(matrix(), matrix()),
  dataset: () => samples,
  module: () => linear,
  model: () => linear,
  optimizer: sgd,
  group: () => distributed.init(),
  where: () => distributed.init(),
  context: () => ({ devices: [{}] }),
};

/** Arguments by their type, where the name says nothing. */
const byType: Readonly<Record<string, () => Untyped>> = {
  number: () => 2,
  string: () => "missing",
  array: () => [],
  fnOrConstructor: () => (x: Untyped) => x,
  Tensor: matrix,
  TensorLike: matrix,
  Shape: () => 2,
  Sizes: () => 2,
  MemorySource: () => new memory.SimulatedSource(),
};

/** Arguments of functions of which names and types say too little. */
const byFunction: Readonly<Record<string, () => readonly Untyped[]>> = {
  saveSafetensors: () => ["never.safetensors", {}],
  "Tensor::decodeBlocks": () => ["Q8_0", [2, 2]],
  "linalg.luSolve": () => [root.linalg.luFactor(matrix())],
  "new distributions.Independent": () => [new root.distributions.Normal(matrix(), 1), 1],
  "Image::fill": () => [{}, new Float32Array(4)],
  "new distributed.SyncBatchNorm": () => [2, distributed.init()],
  "transforms.randomCrop": () => [images(), 2],
  "transforms.mixup": () => [images(), labels(), 2],
  "transforms.cutmix": () => [images(), labels(), 2],
};

/** Objects whose methods are called, by their class; of all others an object without anything. */
const receivers: Readonly<Record<string, () => Untyped>> = {
  Tensor: leaf,
  "distributions.Distribution": () => new root.distributions.Normal(0, 1),
  Batch: () => ModelBatch.prototype,
  Chat: () => CachedChat.prototype,
  LanguageModel: () => models.LanguageModel.prototype,
  DeviceMemory: () => new DeviceMemory(host(), { name: "x" }),
  FaultPool: () => new FaultPool(host()),
  GuardPool: () => GuardPool.forHost(host()),
  LimitPool: () => new LimitPool(host(), 100),
  MemoryFacade: () => root.memory,
  Pool: host,
  PoolBase: host,
  PoolWrapper: () => new (class extends PoolWrapper<Untyped> {})(host()),
  PinnedBufferPool: host,
  SvmPool: host,
  "distributed.ShardedOptimizer": () =>
    new distributed.ShardedOptimizer([leaf()], distributed.init(), (own) => new optim.SGD(own)),
  "nn.Module": () => new nn.Linear(2, 2),
  "nn.MultiheadAttention": () => new nn.MultiheadAttention(2, 1),
  "nn.TransformerDecoder": () => new nn.TransformerDecoder(layer, 1),
  "nn.TransformerDecoderLayer": layer,
  "nn.TransformerEncoder": () => new nn.TransformerEncoder(encoder, 1),
  "nn.TransformerEncoderLayer": encoder,
  "optim.Optimizer": sgd,
};

function nameOf({ name, left, arg }: Parameter): string | undefined {
  return name ?? left?.name ?? arg?.name;
}

/** A value that a parameter takes, or an object without anything. */
function argument(parameter: Parameter): Untyped {
  const name = nameOf(parameter);
  if (name !== undefined && Object.hasOwn(byName, name)) return byName[name]!();
  return parameter.kind === "assign" ? undefined : ofType(typeOf(parameter));
}

function ofType(type: Type | undefined): Untyped {
  if (type?.kind === "union") return ofType(type.value[0]);
  if (type?.kind === "typeOperator") return [];
  const name = type?.kind === "keyword" ? type.value : type?.value?.typeName ?? type?.kind;
  return Object.hasOwn(byType, name) ? byType[name]!() : {};
}

/** The function, class or object at a path such as "nn.Linear". */
function at(path: string): Untyped {
  return path.split(".").reduce((owner, name) => owner?.[name], all);
}

/** The object whose method is called: one of some size of classes that programs use, else undefined. */
function receiverOf(owner: string): Untyped {
  const known = receivers[owner];
  if (known) return known();
  const made = constructors.get(`new ${owner}`);
  if (typeof at(owner) !== "function") return at(owner);
  if (!owner.includes(".") || !made) return;
  try {
    return new (at(owner))(...made.parameters.filter(isNeeded).map(argument));
  } catch {
    return; // It takes what no type says, such as one of two options.
  }
}

/** Calls a function by the name that it has in `callables`. */
function call(name: string, args: readonly Untyped[]): unknown {
  if (name.startsWith("new ")) return new (at(name.slice(4)))(...args);
  const [owner, method] = name.split("::") as [string, string?];
  if (method !== undefined) {
    // Options are looked at before the object, which may be an empty one then.
    const receiver = receiverOf(owner) ?? {};
    return (at(owner)?.prototype ?? receiver)[method].call(receiver, ...args);
  }
  const parts = name.split("."), last = parts.pop()!;
  return (parts.length === 0 ? all : at(parts.join(".")))[last](...args);
}

/** No options of a call: those of an error, and records that netcl itself makes. */
const others = new Set([
  ...["PoolObserver::allocated(0)", "PoolObserver::released(0)", "new InterruptedError(1)"],
  ...["new OutOfMemoryError(0)", "new optim.Optimizer(1)", "new optim.ParameterGroup(1)"],
  "optim.Optimizer::addParamGroup(0)",
]);

const records = await optionRecords();
const declared = (await publicDeclarations()).flatMap(callables);
const constructors = new Map(declared.map((one) => [one.name, one]));

/** True for a parameter that may not be left out. */
function isNeeded({ kind, optional, ...parameter }: Parameter): boolean {
  return !optional && kind === "identifier" && !isOptions(typeOf({ kind, ...parameter }), records);
}

/** Every function with options, by its name and the place of the options: "Tensor.zeros(1)". */
export function optionCalls(): Record<string, Call> {
  return Object.fromEntries(
    declared.flatMap(({ name, parameters }) =>
      parameters.flatMap((parameter, k): [string, Call][] => {
        const key = `${name}(${k})`;
        if (others.has(key) || !isOptions(typeOf(parameter), records)) return [];
        const before = () => byFunction[name]?.() ?? parameters.slice(0, k).map(argument);
        return [[key, (options) => call(name, [...before(), options])]];
      })
    ),
  );
}

/** A place of a function that a value is passed in. */
export interface Place {
  /** Such as "Tensor.zeros(shape)". */
  readonly name: string;
  /** The parameter's type: "number", "Tensor". */
  readonly type: string;
  /** Calls the function with a value there. */
  readonly call: Call;
}

/** False for errors, what netcl itself makes, what writes files, and methods of what is made by other calls or has no class. */
function isTried({ name }: Callable): boolean {
  const [owner, method] = name.split("::") as [string, string?];
  if (
    /Error$|^save|^new (distributions\.(Distribution|LocationScale)|distributed\.Group|optim\.ParameterGroup)$/
      .test(name)
  ) return false;
  if (method === undefined) return true;
  const holder = at(owner)?.prototype ?? {};
  const isMethod = typeof Object.getOwnPropertyDescriptor(holder, method)?.value === "function";
  return isMethod && root.withDevice("cpu", () => receiverOf(owner)) !== undefined;
}

/** The name of a type, of several the first one's; of a tensor or a number "TensorLike". */
function kindOf(type: Type | undefined): string {
  if (type?.kind === "union") {
    const kinds: string[] = type.value.map(kindOf);
    return kinds[0] === "Tensor" && kinds.includes("number") ? "TensorLike" : kinds[0]!;
  }
  return type?.kind === "keyword" ? type.value : type?.value?.typeName ?? type?.kind ?? "";
}

interface Field {
  readonly name: string;
  readonly tsType: Type;
}

const interfaces = new Map(
  (await publicDeclarations()).filter(({ declaration }) => declaration.kind === "interface")
    .map(({ name, declaration }) => [name.split(".").at(-1)!, declaration.def]),
);

/** The options of a type, with those of the types that it extends. */
function fieldsOf(type: Type | undefined): Field[] {
  if (type?.kind === "typeLiteral") return type.value.properties;
  if (type?.kind === "intersection") return type.value.flatMap(fieldsOf);
  const found = type?.kind === "typeRef" && interfaces.get(type.value.typeName);
  return found ? [...found.properties ?? [], ...(found.extends ?? []).flatMap(fieldsOf)] : [];
}

/** The places of all functions, layers and optimizers that programs call, each option among them. */
export async function places(): Promise<Place[]> {
  const forPrograms = (await publicDeclarations()).filter(({ declaration: { location } }) =>
    /\/tensor\/(?!models\/)/.test(location.filename)
  );
  return forPrograms.flatMap(callables).filter(isTried).flatMap(({ name, parameters }) =>
    parameters.flatMap((parameter, k): Place[] => {
      const type = typeOf(parameter);
      const before = () => byFunction[name]?.() ?? parameters.slice(0, k).map(argument);
      const after = () => parameters.slice(k + 1).filter(isNeeded).map(argument);
      const of = (value: Untyped) => call(name, [...before().slice(0, k), value, ...after()]);
      if (!isOptions(type, records)) {
        return [{ name: `${name}(${nameOf(parameter)})`, type: kindOf(type), call: of }];
      }
      // The shape of a tensor is an argument of all makers but fromHost.
      return fieldsOf(type).filter((field) => field.name !== "shape").map((field) => ({
        name: `${name}({ ${field.name} })`,
        type: kindOf(field.tsType),
        call: (value) => of({ [field.name]: value }),
      }));
    })
  );
}
