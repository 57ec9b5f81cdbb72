/** Names that a checkpoint may use: tensors and their storages, dicts, lists, and the like. */
import { elementBytes, type ElementType } from "../core/elements.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import { checkedSize } from "../core/host_array.ts";
import { numpyNames } from "./numpy_values.ts";
import { Callable, describe, type Stateful } from "./pickle.ts";

/** A block of memory that tensors share. */
export class Storage {
  /** The name under which its bytes lie in the file. */
  readonly key: string;
  /** Its length, in elements of the type that the file gives it. */
  readonly length: number;
  /** The type of its elements. */
  readonly type: ElementType;

  /** Describes a storage. */
  constructor(key: string, length: number, type: ElementType) {
    this.key = key;
    this.length = length;
    this.type = type;
  }
}

/** A tensor whose values have not been read: a part of a storage. */
export class StoredTensor {
  /** The block that holds its values. */
  readonly storage: Storage;
  /** The element of the storage that its first one is. */
  readonly offset: number;
  /** Its shape. */
  readonly shape: readonly number[];
  /** Elements of the storage from one to the next along each axis. */
  readonly strides: readonly number[];
  /** True for a parameter. */
  readonly requiresGrad: boolean;

  /** Describes a tensor, whose elements must lie in the storage. */
  constructor(
    storage: Storage,
    offset: unknown,
    shape: unknown,
    strides: unknown,
    requiresGrad: boolean,
  ) {
    const size = checkedSize(shape, "A tensor");
    const steps = strides as readonly number[], lengths = shape as readonly number[];
    const isCount = (n: unknown) => Number.isSafeInteger(n) && (n as number) >= 0;
    const fits = isCount(offset) && Array.isArray(strides) && strides.every(isCount) &&
      steps.length === lengths.length;
    const last = () =>
      lengths.reduce((sum, n, axis) => sum + (n - 1) * steps[axis]!, offset as number);
    if (!fits || size > 0 && !(last() < storage.length)) {
      throw new FileFormatError(
        `A tensor of shape [${lengths}], strides ${shown(strides)} and offset ${shown(offset)} ` +
          `does not fit into its storage of ${storage.length} elements`,
      );
    }
    this.storage = storage;
    this.offset = offset as number;
    // Copies: the pickle may go on and change its lists.
    this.shape = lengths.slice();
    this.strides = steps.slice();
    this.requiresGrad = requiresGrad;
  }
}

/** An element type, as a checkpoint names one. */
export class TorchType {
  /** Its name in PyTorch, such as "float32". */
  readonly name: string;

  /** Names a type. */
  constructor(name: string) {
    this.name = name;
  }
}

/** PyTorch's name of each element type that is read, and that of its storages. */
const types: readonly (readonly [dtype: string, storage: string | null, type: ElementType])[] = [
  ["float32", "FloatStorage", "f4"],
  ["float64", "DoubleStorage", "f8"],
  ["float16", "HalfStorage", "f2"],
  ["bfloat16", "BFloat16Storage", "bf"],
  ["int64", "LongStorage", "i8"],
  ["int32", "IntStorage", "i4"],
  ["int16", "ShortStorage", "i2"],
  ["int8", "CharStorage", "i1"],
  ["uint8", "ByteStorage", "u1"],
  ["uint16", null, "u2"],
  ["uint32", null, "u4"],
  ["bool", "BoolStorage", "b1"],
  ["float8_e4m3fn", null, "e4"],
  ["float8_e5m2", null, "e5"],
];

/** The class of a storage, as ids of storages name it. */
export class StorageClass {
  /** The type of its elements. */
  readonly type: ElementType;

  /** Names a class. */
  constructor(type: ElementType) {
    this.type = type;
  }
}

function wrongArguments(name: string, args: readonly unknown[]): FileFormatError {
  return new FileFormatError(
    `The pickle calls ${name} with ${args.map(describe).join(", ").slice(0, 200)}`,
  );
}

function rebuildTensor(name: string) {
  return (args: readonly unknown[]): StoredTensor => {
    const [storage, offset, shape, strides, requiresGrad] = args;
    if (!(storage instanceof Storage)) throw wrongArguments(name, args);
    return new StoredTensor(storage, offset, shape, strides, requiresGrad === true);
  };
}

/** A tensor of a storage of bytes, which says its element type itself. */
function rebuildTypedTensor(args: readonly unknown[]): StoredTensor {
  const [storage, offset, shape, strides, requiresGrad, , type] = args;
  const row = type instanceof TorchType ? types.find(([dtype]) => dtype === type.name) : undefined;
  if (!(storage instanceof Storage) || !row) throw wrongArguments("_rebuild_tensor_v3", args);
  const length = Math.floor(storage.length / elementBytes(row[2]));
  const typed = new Storage(storage.key, length, row[2]);
  return new StoredTensor(typed, offset, shape, strides, requiresGrad === true);
}

function rebuildParameter(args: readonly unknown[]): StoredTensor {
  const [data, requiresGrad] = args;
  if (!(data instanceof StoredTensor)) throw wrongArguments("_rebuild_parameter", args);
  const { storage, offset, shape, strides } = data;
  return new StoredTensor(storage, offset, shape, strides, requiresGrad === true);
}

function dictOf(name: string) {
  return (args: readonly unknown[]): Map<unknown, unknown> => {
    const [items = []] = args;
    if (items instanceof Map) return new Map(items);
    const isPairs = Array.isArray(items) &&
      items.every((item) => Array.isArray(item) && item.length === 2);
    if (!isPairs) throw wrongArguments(name, args);
    return new Map(items as [unknown, unknown][]);
  };
}

function listOf(name: string) {
  return (args: readonly unknown[]): unknown[] => {
    const [items = []] = args;
    if (Array.isArray(items)) return items.slice();
    throw wrongArguments(name, args);
  };
}

function setOf(name: string) {
  const list = listOf(name);
  return (args: readonly unknown[]): Set<unknown> => new Set(list(args));
}

function textOf(separator: string) {
  return (args: readonly unknown[]): string =>
    args.map((part) => typeof part === "string" ? part : describe(part)).join(separator);
}

/** The empty ones, as protocol 2 writes them, and those that may be changed. */
function bytesOf(name: string) {
  return (args: readonly unknown[]): Uint8Array => {
    const [content = new Uint8Array()] = args;
    if (content instanceof Uint8Array) return content;
    if (typeof content !== "string") throw wrongArguments(name, args);
    return Uint8Array.from(content, (letter) => letter.charCodeAt(0));
  };
}

/** Attributes of an object that has nothing else, as settings are kept. */
class Namespace extends Map<unknown, unknown> implements Stateful {
  setState(state: unknown): void {
    if (!(state instanceof Map)) throw wrongArguments("a namespace", [state]);
    for (const [key, value] of state) this.set(key, value);
  }
}

const builtins: Readonly<Record<string, (name: string) => (args: readonly unknown[]) => unknown>> =
  {
    dict: dictOf,
    list: listOf,
    tuple: listOf,
    set: setOf,
    frozenset: setOf,
    bytes: bytesOf,
    bytearray: bytesOf,
  };

const callables: Readonly<Record<string, (args: readonly unknown[]) => unknown>> = {
  "collections.OrderedDict": dictOf("OrderedDict"),
  // Its factory makes what is missing, and nothing is.
  "collections.defaultdict": ([, items]) =>
    dictOf("defaultdict")(items === undefined ? [] : [items]),
  "collections.Counter": dictOf("Counter"),
  "argparse.Namespace": () => new Namespace(),
  "types.SimpleNamespace": () => new Namespace(),
  "torch.Size": listOf("torch.Size"),
  "torch.device": textOf(":"),
  "torch._utils._rebuild_tensor": rebuildTensor("_rebuild_tensor"),
  "torch._utils._rebuild_tensor_v2": rebuildTensor("_rebuild_tensor_v2"),
  "torch._utils._rebuild_tensor_v3": rebuildTypedTensor,
  "torch._utils._rebuild_parameter": rebuildParameter,
  "torch._utils._rebuild_parameter_with_state": rebuildParameter,
  "torch.nn.parameter.Parameter": rebuildParameter,
  // The function, the class, its arguments; attributes of the tensor are left.
  "torch._tensor._rebuild_from_type_v2": (args) => {
    const [fn, , inner] = args;
    if (fn instanceof Callable && Array.isArray(inner)) return fn.call(inner);
    throw wrongArguments("_rebuild_from_type_v2", args);
  },
  // The machine itself does this one: see there.
  "_codecs.encode": () => null,
};

/** All that a checkpoint may name, by module and name. */
const known: ReadonlyMap<string, unknown> = new Map<string, unknown>([
  ...types.map(([dtype]) => [`torch.${dtype}`, new TorchType(dtype)] as const),
  ...types.flatMap(([, name, type]) =>
    name === null ? [] : [[`torch.${name}`, new StorageClass(type)] as const]
  ),
  ...["torch.storage.UntypedStorage", "torch.UntypedStorage"].map((name) =>
    [name, new StorageClass("u1")] as const
  ),
  ...Object.entries(callables).map(([name, fn]) => [name, new Callable(name, fn)] as const),
  ...Object.entries(builtins).flatMap(([name, make]) =>
    ["builtins", "__builtin__"].map((module) =>
      [`${module}.${name}`, new Callable(name, make(name))] as const
    )
  ),
  ...numpyNames,
  ...["pathlib.PosixPath", "pathlib.WindowsPath", "pathlib.PurePosixPath"].map((name) =>
    [name, new Callable(name, (parts) => textOf("/")(parts).replace("//", "/"))] as const
  ),
  ...["torch.Tensor", "torch.FloatTensor", "torch.LongTensor", "numpy.ndarray"].map((name) =>
    [name, new TorchType(name)] as const
  ),
]);

/** Tensors that are not read, by what their names have in them, and what to save in their place. */
const remedies: readonly (readonly [RegExp, string])[] = [
  [/^torch\.[cC]omplex/, "torch.view_as_real(tensor)"],
  [/^torch\.(q|QU?Int|_utils\._rebuild_qtensor)/, "tensor.dequantize()"],
  [/^torch\._utils\._rebuild_(sparse|nested)/, "tensor.to_dense()"],
  [/^torch\.(uint64|float8|float4)/, "tensor.to(another type)"],
];

/**
 * The class, function or type of a name.
 *
 * @throws {FileFormatError} For all that is no tensor, dict, list or number.
 */
export function findTorchName(name: string): unknown {
  if (known.has(name)) return known.get(name);
  const remedy = remedies.find(([pattern]) => pattern.test(name))?.[1];
  if (remedy !== undefined) {
    throw new FileFormatError(
      `The file has a tensor of ${shown(name)}, which is not read: in Python, save ${remedy}`,
    );
  }
  throw new FileFormatError(
    `The file names ${shown(name)}, and only tensors, dicts, lists, texts and numbers are read; ` +
      `nothing of it was run. In Python, torch.save(model.state_dict(), path) saves tensors alone`,
  );
}

/**
 * The storage that an id describes: ("storage", its class, its key, its place, its length).
 *
 * @throws {FileFormatError} For other ids.
 */
export function storageOf(id: unknown): Storage {
  const [kind, storageClass, key, , length] = Array.isArray(id) ? id : [];
  const fits = kind === "storage" && storageClass instanceof StorageClass &&
    typeof key === "string" && Number.isSafeInteger(length) && length >= 0;
  if (!fits) throw new FileFormatError(`The pickle loads ${describe(id)}, which is no storage`);
  return new Storage(key, length, storageClass.type);
}
