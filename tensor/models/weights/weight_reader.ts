import type { DeviceHandle, DType } from "../../../backend/internal.ts";
import { FileFormatError, shown } from "../../io/core/file_format_error.ts";
import type { HostArray } from "../../io/core/host_array.ts";
import { decodeGgufEntry, type GgufFile } from "../../io/gguf/gguf.ts";
import { blockFormatOf, type BlockType, type GgufEntry } from "../../io/gguf/gguf_format.ts";
import type { SafetensorsFile } from "../../io/safetensors_file.ts";
import { decodeEntry, type SafetensorsEntry } from "../../io/safetensors_format.ts";
import { withRole } from "../../nn/module/parameter.ts";
import { Tensor } from "../../class/tensor.ts";
import { PackedMatrix } from "./packed_matrix.ts";
import type { Weight } from "./projection.ts";
import {
  type ElementUnit,
  fitsUnits,
  partShape,
  readPart,
  transposedPart,
  type WeightPart,
} from "./weight_part.ts";

/** The form in which weights are held. */
export interface WeightForm {
  /** True to keep blocks as they are. */
  readonly isPacked: boolean;
  /** The type of numbers; null as the file has them. */
  readonly dtype: DType | null;
}

/** Change of a tensor on its way from a file. */
export interface WeightChange {
  /** True for a matrix that lies transposed. */
  readonly isTransposed?: boolean;
  /** Heads whose features lie in pairs, to be put into halves. */
  readonly pairedHeads?: number;
  /**
   * Matrices of experts, (experts, rows, columns), as one: one below the other, (experts * rows, columns), or side
   * by side, (rows, experts * columns).
   */
  readonly experts?: "below" | "beside";
  /** Number added. */
  readonly offset?: number;
  /** The part that is read; default all. Heads in pairs are those of the part. */
  readonly part?: WeightPart | undefined;
}

/** The weights of a file, each read once, under the file's names. */
export interface WeightReader {
  /** True where the file has a tensor of that name. */
  has(name: string): boolean;
  /**
   * The shape of a tensor as models use it, all of it.
   *
   * @throws {FileFormatError} When the file lacks it.
   */
  shape(name: string, change?: WeightChange): readonly number[];
  /** A matrix; blocks may stay packed. */
  matrix(name: string, change?: WeightChange): Promise<Weight>;
  /** A tensor as numbers. */
  numbers(name: string, change?: WeightChange): Promise<Tensor>;
  /** The names that nobody has asked for. */
  unread(): string[];
}

/** The most elements that become float32 on a processor unasked: 512 Mi are 2 GiB. */
const MAX_WIDENED = 2 ** 29;

/**
 * The form of weights. Unless one is asked for, blocks stay as they are: a token reads all weights, and one of
 * SmolLM2 in Q4_1 takes 53 ms of two cores under PoCL, 127 ms decoded to float32 (built in 100 and 124 ms).
 * Half precision becomes float32 on processors while that fits, since few compute in it.
 *
 * @param asked An element type, or "packed".
 */
export function weightForm(
  asked: string | undefined,
  device: DeviceHandle,
  elements: number,
): WeightForm {
  if (asked === "packed") return { isPacked: true, dtype: null };
  if (asked !== undefined) return { isPacked: false, dtype: asked as DType };
  const isWidened = device.deviceType === "cpu" && elements <= MAX_WIDENED;
  return { isPacked: true, dtype: isWidened ? "float32" : null };
}

/** Reads weights for a device. */
abstract class Reader<Entry extends { readonly shape: readonly number[] }> implements WeightReader {
  readonly #unread: Set<string>;
  readonly #entries: ReadonlyMap<string, Entry>;
  readonly device: DeviceHandle;
  readonly form: WeightForm;

  constructor(entries: ReadonlyMap<string, Entry>, device: DeviceHandle, form: WeightForm) {
    this.#entries = entries;
    this.#unread = new Set(entries.keys());
    this.device = device;
    this.form = form;
  }

  has(name: string): boolean {
    return this.#entries.has(name);
  }

  shape(name: string, { isTransposed, experts }: WeightChange = {}): readonly number[] {
    const { shape } = joined(this.entry(name), experts);
    return isTransposed && shape.length === 2 ? shape.toReversed() : shape;
  }

  /** @throws {FileFormatError} When the file lacks it. */
  protected entry(name: string): Entry {
    const entry = this.#entries.get(name);
    if (entry) return entry;
    throw new FileFormatError(`The file has no tensor ${shown(name)}`);
  }

  unread(): string[] {
    return [...this.#unread];
  }

  /** The same, which is read now. */
  protected take(name: string): Entry {
    const entry = this.entry(name);
    this.#unread.delete(name);
    return entry;
  }

  /** Puts numbers on the device, frozen. */
  protected put({ data, shape, dtype }: HostArray, { isTransposed, offset }: WeightChange): Tensor {
    const wanted = this.form.dtype ?? dtype;
    const isWide = wanted === "float32" || Boolean(offset);
    const wide = isWide && !(data instanceof Float32Array)
      ? new Float32Array(data as Float16Array)
      : data as Float32Array<ArrayBuffer>;
    const numbers = offset ? wide.map((x) => x + offset) : wide;
    const held = isWide ? "float32" : dtype;
    const { device } = this;
    const tensor = Tensor.fromHost(numbers, { shape: [...shape], dtype: held, device });
    const inOrder = isTransposed && shape.length === 2 ? tensor.transpose().contiguous() : tensor;
    return withRole(inOrder.cast(wanted), "parameter");
  }

  abstract numbers(name: string, change?: WeightChange): Promise<Tensor>;
  abstract matrix(name: string, change?: WeightChange): Promise<Weight>;
}

/** The weights of a folder, read by name. */
export type NamedWeights = Pick<SafetensorsFile, "tensors" | "read" | "decode">;

/** The weights of safetensors files. */
export class SafetensorsWeights extends Reader<SafetensorsEntry> {
  readonly #file: NamedWeights;

  constructor(
    file: NamedWeights,
    device: DeviceHandle,
    form: WeightForm,
  ) {
    super(file.tensors, device, form);
    this.#file = file;
  }

  override async numbers(name: string, change: WeightChange = {}): Promise<Tensor> {
    const { part, isTransposed, experts } = change;
    if (!part && !experts) {
      this.take(name);
      return this.put(await this.#file.decode(name), change);
    }
    const whole = this.take(name), entry = joined(whole, experts);
    if (!part) {
      const bytes = ordered(await this.#file.read(name), whole.shape, experts);
      return this.put(decodeEntry(entry, bytes), change);
    }
    const isTurned = isTransposed && entry.shape.length === 2;
    const own = isTurned ? transposedPart(part) : part, shape = partShape(entry.shape, own);
    const read = (begin: number, end: number) => this.#file.read(name, begin, end);
    const unit = { elements: 1, bytes: (entry.end - entry.start) / sizeOf(entry.shape) };
    const bytes = await readPart(read, entry.shape, own, unit);
    return this.put(decodeEntry({ ...entry, shape }, bytes), change);
  }

  override matrix(name: string, change?: WeightChange): Promise<Weight> {
    return this.numbers(name, change);
  }
}

/** The weights of a GGUF file. */
export class GgufWeights extends Reader<GgufEntry> {
  readonly #file: GgufFile;

  constructor(file: GgufFile, device: DeviceHandle, form: WeightForm) {
    super(file.tensors, device, form);
    this.#file = file;
  }

  override async numbers(name: string, change: WeightChange = {}): Promise<Tensor> {
    const { part } = change;
    const isDivided = part && !fitsUnits(part, unitOf(this.entry(name)));
    const rows = isDivided ? { ...change, part: { ...part, columns: null } } : change;
    const { entry, bytes } = await this.#read(name, rows), array = decodeGgufEntry(entry, bytes);
    return this.put(isDivided ? await columnsOf(array, part) : array, change);
  }

  override async matrix(name: string, change: WeightChange = {}): Promise<Weight> {
    const { part, experts } = change, entry = joined(this.entry(name), experts);
    const isPacked = this.form.isPacked && blockFormatOf(entry.type) && entry.shape.length === 2;
    // A part that begins within a block is held as numbers.
    if (!isPacked || part && !fitsUnits(part, unitOf(entry))) {
      return await this.numbers(name, change);
    }
    const type = entry.type as BlockType, own = await this.#read(name, change);
    const blocks = Tensor.fromBlocks(own.bytes, type, { device: this.device });
    return new PackedMatrix(type, blocks, own.entry.shape);
  }

  async #read(name: string, { pairedHeads, part, experts }: WeightChange) {
    const whole = this.take(name), all = joined(whole, experts).shape;
    const shape = part ? partShape(all, part) : all;
    const read = (begin: number, end: number) => this.#file.read(name, begin, end);
    const bytes = part
      ? await readPart(read, all, part, unitOf(whole))
      : ordered(await this.#file.read(name), whole.shape, experts);
    const entry = { ...whole, shape };
    return { entry, bytes: pairedHeads ? halved(bytes, shape[0]!, pairedHeads) : bytes };
  }
}

/** Some columns of a matrix of numbers. */
async function columnsOf(array: HostArray, { columns }: WeightPart): Promise<HostArray> {
  const { data, shape } = array, part = { rows: null, columns };
  const { buffer, byteOffset, BYTES_PER_ELEMENT: bytes } = data as Float32Array<ArrayBuffer>;
  const read = (begin: number, end: number) =>
    Promise.resolve(new Uint8Array(buffer, byteOffset + begin, end - begin));
  const own = await readPart(read, shape, part, { elements: 1, bytes });
  const View = data.constructor as Float32ArrayConstructor;
  return { ...array, data: new View(own.buffer), shape: partShape(shape, part) };
}

function unitOf({ type, shape, nbytes }: GgufEntry): ElementUnit {
  const elements = blockFormatOf(type)?.elements ?? 1;
  return { elements, bytes: nbytes / (sizeOf(shape) / elements) };
}

function sizeOf(shape: readonly number[]): number {
  return shape.reduce((a, b) => a * b, 1);
}

/** Rows of heads whose features i and i + 1 are a pair, in the order in which i and i + E / 2 are. */
function halved(
  bytes: Uint8Array<ArrayBuffer>,
  rows: number,
  heads: number,
): Uint8Array<ArrayBuffer> {
  const out = new Uint8Array(bytes.length), width = bytes.length / rows, features = rows / heads;
  for (let row = 0; row < rows; row++) {
    const head = Math.floor(row / features), k = row % features;
    const to = head * features + (k % 2) * features / 2 + Math.floor(k / 2);
    out.set(bytes.subarray(row * width, (row + 1) * width), to * width);
  }
  return out;
}

/** The matrices of experts as one. */
function joined<Entry extends { readonly shape: readonly number[] }>(
  entry: Entry,
  experts: WeightChange["experts"],
): Entry {
  if (!experts || entry.shape.length !== 3) return entry;
  const [count, rows, columns] = entry.shape as [number, number, number];
  const shape = experts === "below" ? [count * rows, columns] : [rows, count * columns];
  return { ...entry, shape };
}

/** The bytes of experts' matrices, one behind the other, in the order of {@linkcode joined}. */
function ordered(
  bytes: Uint8Array<ArrayBuffer>,
  [count, rows]: readonly number[],
  experts: WeightChange["experts"],
): Uint8Array<ArrayBuffer> {
  if (experts !== "beside") return bytes;
  const out = new Uint8Array(bytes.length), width = bytes.length / (count! * rows!);
  for (let at = 0; at < count! * rows!; at++) {
    const to = at % rows! * count! + Math.floor(at / rows!);
    out.set(bytes.subarray(at * width, (at + 1) * width), to * width);
  }
  return out;
}
