import { sizeOf } from "../../../backend/internal.ts";
import { checkOptions, requireValue, takes } from "../../core/rules/options.ts";
import { Tensor } from "../../class/tensor.ts";
import { bytesInMemory, withFileBytes } from "../core/byte_source.ts";
import { decodeElements, elementBytes } from "../core/elements.ts";
import { FileFormatError, readingFile } from "../core/file_format_error.ts";
import type { HostArray } from "../core/host_array.ts";
import { type LoadOptions, loadRules } from "../core/load_options.ts";
import { type Checkpoint, openCheckpoint } from "./containers.ts";
import { Callable } from "./pickle.ts";
import { isContiguous, stridedCopy, stridedView } from "./strided.ts";
import { NumpyArray, NumpyType } from "./numpy_values.ts";
import { Storage, StorageClass, StoredTensor, TorchType } from "./torch_names.ts";

/**
 * Reads a checkpoint that `torch.save` wrote (.pt, .pth, .bin), in any of its containers: the ZIP archive
 * since PyTorch 1.6, the stream before it, the tar before that.
 *
 * Nothing of the file is run: tensors, NumPy's arrays and numbers, dicts, lists and texts are built, and a
 * file that names anything else is refused by that name. NumPy's arrays are tensors here. Tensors that
 * share a storage share memory here, too, as long
 * as none is assigned to. uint16, which is no type here, becomes int32.
 *
 * @param path The file.
 * @param options Where the tensors are put.
 * @returns What was saved: a dict is an object (a Map where a key is no text or number), a list or tuple
 * an array, None null, a whole number beyond 2^53 a bigint.
 * @throws {FileFormatError} For a file that is damaged, that is no checkpoint, or that names what is not built.
 *
 * @example A model's weights
 * ```ts ignore
 * import { nn, type Tensor } from "@netcl/netcl";
 * import { loadTorch } from "@netcl/netcl/models";
 *
 * const state = await loadTorch("weights.pt") as Record<string, Tensor>;
 * new nn.Linear(4, 8).loadStateDict(state);
 * ```
 */
export function loadTorch(path: string | URL, options: LoadOptions = {}): Promise<unknown> {
  checkOptions("load a checkpoint of PyTorch", options, loadRules);
  return readingFile(path, () =>
    withFileBytes(path, async (source) => {
      const checkpoint = await openCheckpoint(source);
      const made = new Map<StoredTensor | NumpyArray, Tensor>();
      try {
        for (const array of numpyArrays(checkpoint.value)) {
          const { data, shape, dtype } = array.read();
          made.set(array, Tensor.fromHost(data, { ...options, shape, dtype }));
        }
        for (const [storage, parts] of byStorage(checkpoint.value)) {
          await makeTensors(checkpoint, storage, parts, options, made);
        }
      } catch (error) {
        for (const tensor of made.values()) tensor.dispose();
        throw error;
      }
      return plain(checkpoint.value, (part) => made.get(part)!);
    }));
}

/**
 * Reads the bytes of a checkpoint of PyTorch as {@linkcode loadTorch} reads its file, with arrays on the
 * host in the place of tensors.
 *
 * @throws {FileFormatError} Where that does.
 */
export async function decodeTorch(bytes: Uint8Array<ArrayBuffer>): Promise<unknown> {
  requireValue("read a checkpoint of PyTorch", "bytes", bytes, takes.arrayView);
  const checkpoint = await openCheckpoint(bytesInMemory(bytes));
  const made = new Map<StoredTensor | NumpyArray, HostArray>();
  for (const array of numpyArrays(checkpoint.value)) made.set(array, array.read());
  for (const [storage, parts] of byStorage(checkpoint.value)) {
    const all = await elementsOf(checkpoint, storage);
    for (const part of parts) made.set(part, { ...all, ...copied(all, part) });
  }
  return plain(checkpoint.value, (part) => made.get(part)!);
}

/** The tensors of each storage, by their element type: a storage of bytes may be read as several. */
function byStorage(value: unknown): [Storage, StoredTensor[]][] {
  const groups = new Map<string, StoredTensor[]>();
  for (const part of arraysIn(value)) {
    if (!(part instanceof StoredTensor)) continue;
    const { key, type } = part.storage, name = `${type} ${key}`;
    groups.get(name)?.push(part) ?? groups.set(name, [part]);
  }
  return [...groups.values()].map((parts) => [parts[0]!.storage, parts]);
}

function numpyArrays(value: unknown): NumpyArray[] {
  return [...arraysIn(value)].filter((part) => part instanceof NumpyArray);
}

/** All tensors and arrays in a value, which may hold itself; each once. */
function* arraysIn(value: unknown): Generator<StoredTensor | NumpyArray> {
  const seen = new Set<unknown>(), waiting = [value];
  while (waiting.length > 0) {
    const next = waiting.pop();
    if (typeof next !== "object" || next === null || seen.has(next)) continue;
    seen.add(next);
    if (next instanceof StoredTensor || next instanceof NumpyArray) yield next;
    else if (next instanceof Map) { for (const pair of next) waiting.push(...pair); }
    else if (Array.isArray(next) || next instanceof Set) {
      for (const part of next) waiting.push(part);
    }
  }
}

async function elementsOf(checkpoint: Checkpoint, storage: Storage) {
  const { type, length } = storage, expected = length * elementBytes(type);
  const bytes = await checkpoint.bytesOf(storage);
  if (bytes.byteLength < expected) {
    throw new FileFormatError(
      `Storage "${storage.key}" has ${bytes.byteLength} bytes: ${length} elements take ${expected}`,
    );
  }
  return decodeElements(type, bytes.subarray(0, expected), checkpoint.littleEndian);
}

/** Elements of tensors that overlap are copied up to this many times those of their storage. */
const MAX_OVERLAP = 1024;

function copied({ data }: { data: HostArray["data"] }, part: StoredTensor) {
  const { shape, storage } = part, size = sizeOf(shape);
  if (size > MAX_OVERLAP * storage.length) {
    throw new FileFormatError(
      `A tensor of shape [${shape}] repeats the elements of a storage of ${storage.length}`,
    );
  }
  return { data: stridedCopy(data, part), shape };
}

/** Puts a storage on the device once, and makes its tensors views of it where that can be said. */
async function makeTensors(
  checkpoint: Checkpoint,
  storage: Storage,
  parts: readonly StoredTensor[],
  options: LoadOptions,
  made: Map<StoredTensor | NumpyArray, Tensor>,
): Promise<void> {
  const { data, dtype } = await elementsOf(checkpoint, storage);
  const isWhole = (part: StoredTensor) =>
    part.offset === 0 && isContiguous(part) &&
    sizeOf(part.shape) === data.length;
  if (parts.length === 1 && isWhole(parts[0]!)) {
    const tensor = Tensor.fromHost(data, { ...options, dtype, shape: parts[0]!.shape });
    made.set(parts[0]!, finished(tensor, parts[0]!));
    return;
  }
  using all = Tensor.fromHost(data, { ...options, dtype });
  for (const part of parts) {
    const view = part.shape.includes(0) ? null : stridedView(all, part);
    const copy = () =>
      Tensor.fromHost(copied({ data }, part).data, { ...options, dtype, shape: part.shape });
    made.set(part, finished(view ?? copy(), part));
  }
}

function finished(tensor: Tensor, { requiresGrad }: StoredTensor): Tensor {
  if (requiresGrad) tensor.requiresGrad = true;
  return tensor;
}

/** More levels are damage, or an attack on the stack. */
const MAX_DEPTH = 500;

/** The value as programs in JavaScript have it. */
function plain<T>(value: unknown, tensorOf: (part: StoredTensor | NumpyArray) => T): unknown {
  const made = new Map<unknown, unknown>();
  const visit = (value: unknown, depth: number): unknown => {
    if (depth > MAX_DEPTH) throw new FileFormatError("The value is nested too deep");
    if (value instanceof StoredTensor || value instanceof NumpyArray) return tensorOf(value);
    if (value instanceof TorchType) return value.name;
    if (value instanceof NumpyType) return value.type;
    if (value instanceof Storage) {
      throw new FileFormatError(
        "The file holds a storage by itself: save the tensor that it is of",
      );
    }
    if (value instanceof Callable || value instanceof StorageClass) {
      throw new FileFormatError("The file holds a class, and only data is read");
    }
    if (typeof value !== "object" || value === null) return value;
    return made.get(value) ?? visitCollection(value, depth);
  };
  const visitCollection = (value: object, depth: number): unknown => {
    if (Array.isArray(value)) {
      const list: unknown[] = [];
      made.set(value, list);
      for (const part of value) list.push(visit(part, depth + 1));
      return list;
    }
    if (!(value instanceof Map)) return value;
    const isRecord = [...value.keys()].every((k) => typeof k === "string" || typeof k === "number");
    const into: object = isRecord ? {} : new Map();
    made.set(value, into);
    for (const [key, part] of value) setKey(into, key, visit(part, depth + 1));
    return into;
  };
  return visit(value, 0);
}

/** Defines rather than assigns: a key may be "__proto__". */
function setKey(into: object, key: unknown, value: unknown): void {
  if (into instanceof Map) into.set(key, value);
  else {
    Object.defineProperty(into, key as string, {
      value,
      enumerable: true,
      configurable: true,
      writable: true,
    });
  }
}
