import type { DeviceHandle, DType } from "../../../backend/internal.ts";
import { FileFormatError, shown } from "../../io/core/file_format_error.ts";
import type { HostArray } from "../../io/core/host_array.ts";
import { decodeGgufEntry, type GgufFile } from "../../io/gguf/gguf.ts";
import { blockFormatOf, type BlockType } from "../../io/gguf/gguf_format.ts";
import type { SafetensorsFile } from "../../io/safetensors_file.ts";
import { withRole } from "../../nn/module/parameter.ts";
import { Tensor } from "../../class/tensor.ts";
import { PackedMatrix } from "./packed_matrix.ts";
import type { Weight } from "./projection.ts";

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
  /** Number added. */
  readonly offset?: number;
}

/** The weights of a file, each read once, under the file's names. */
export interface WeightReader {
  /** True where the file has a tensor of that name. */
  has(name: string): boolean;
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
abstract class Reader implements WeightReader {
  readonly #unread: Set<string>;
  readonly #names: ReadonlySet<string>;
  readonly device: DeviceHandle;
  readonly form: WeightForm;

  constructor(names: Iterable<string>, device: DeviceHandle, form: WeightForm) {
    this.#names = new Set(names);
    this.#unread = new Set(this.#names);
    this.device = device;
    this.form = form;
  }

  has(name: string): boolean {
    return this.#names.has(name);
  }

  unread(): string[] {
    return [...this.#unread];
  }

  /** @throws {FileFormatError} When the file lacks it. */
  protected take(name: string): void {
    if (!this.has(name)) throw new FileFormatError(`The file has no tensor ${shown(name)}`);
    this.#unread.delete(name);
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

/** The weights of safetensors files. */
export class SafetensorsWeights extends Reader {
  readonly #file: SafetensorsFile;

  constructor(file: SafetensorsFile, device: DeviceHandle, form: WeightForm) {
    super(file.tensors.keys(), device, form);
    this.#file = file;
  }

  override async numbers(name: string, change: WeightChange = {}): Promise<Tensor> {
    this.take(name);
    return this.put(await this.#file.decode(name), change);
  }

  override matrix(name: string, change?: WeightChange): Promise<Weight> {
    return this.numbers(name, change);
  }
}

/** The weights of a GGUF file. */
export class GgufWeights extends Reader {
  readonly #file: GgufFile;

  constructor(file: GgufFile, device: DeviceHandle, form: WeightForm) {
    super(file.tensors.keys(), device, form);
    this.#file = file;
  }

  override async numbers(name: string, change: WeightChange = {}): Promise<Tensor> {
    const bytes = await this.#bytes(name, change);
    return this.put(decodeGgufEntry(this.#file.tensors.get(name)!, bytes), change);
  }

  override async matrix(name: string, change: WeightChange = {}): Promise<Weight> {
    const entry = this.#file.tensors.get(name), form = entry && blockFormatOf(entry.type);
    if (!form || !this.form.isPacked || entry.shape.length !== 2) {
      return await this.numbers(name, change);
    }
    const bytes = await this.#bytes(name, change);
    return new PackedMatrix(entry.type as BlockType, bytes, entry.shape, this.device);
  }

  async #bytes(name: string, { pairedHeads }: WeightChange): Promise<Uint8Array<ArrayBuffer>> {
    this.take(name);
    const bytes = await this.#file.read(name);
    return pairedHeads
      ? halved(bytes, this.#file.tensors.get(name)!.shape[0]!, pairedHeads)
      : bytes;
  }
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
