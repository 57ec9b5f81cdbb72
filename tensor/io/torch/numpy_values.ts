/** NumPy's arrays and numbers within a checkpoint: metrics, schedules, random states. */
import { decodeElements, elementBytes, type ElementType, isNumpyType } from "../core/elements.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import { checkedSize, type HostArray, toRowMajor } from "../core/host_array.ts";
import { Callable, describe, type Stateful } from "./pickle.ts";

/** A dtype, such as `<f4`. */
export class NumpyType implements Stateful {
  /** Layout of an element. */
  readonly type: ElementType;
  /** Order of the bytes of an element. */
  isLittleEndian = true;

  /** Names a dtype as NumPy does, by kind and bytes. */
  constructor(name: unknown) {
    if (!isNumpyType(name)) {
      throw new FileFormatError(
        `The file holds an array of NumPy of dtype ${shown(name)}, and only bool and numbers up ` +
          "to 64 bits are read: in Python, save it with .astype()",
      );
    }
    this.type = name;
  }

  /** Takes the order of bytes, the second part of what NumPy writes of a dtype. */
  setState(state: unknown): void {
    this.isLittleEndian = !Array.isArray(state) || state[1] !== ">";
  }
}

function typeOf(value: unknown): NumpyType {
  if (value instanceof NumpyType) return value;
  throw new FileFormatError(`The pickle has ${describe(value)} where a dtype of NumPy is due`);
}

function bytesOf(value: unknown): Uint8Array {
  if (value instanceof Uint8Array) return value;
  throw new FileFormatError(
    `The pickle has ${describe(value)} where the bytes of an array are due`,
  );
}

/** An array whose elements have not been read. */
export class NumpyArray implements Stateful {
  #state: readonly unknown[] = [];

  /** Takes a version, the shape, the dtype, whether the first axis is the fastest, the bytes. */
  setState(state: unknown): void {
    if (!Array.isArray(state)) {
      throw new FileFormatError(`An array has ${describe(state)} as state`);
    }
    this.#state = state;
  }

  /**
   * Its values.
   *
   * @throws {FileFormatError} Where they are not what its shape takes.
   */
  read(): HostArray {
    const [, shape, dtype, isColumnMajor, raw] = this.#state;
    const size = checkedSize(shape, "An array of NumPy"), lengths = (shape as number[]).slice();
    const { type, isLittleEndian } = typeOf(dtype), bytes = bytesOf(raw);
    if (bytes.length !== size * elementBytes(type)) {
      throw new FileFormatError(
        `An array of NumPy of shape [${lengths}] has ${bytes.length} bytes: expected ` +
          `${size * elementBytes(type)}`,
      );
    }
    const array = { ...decodeElements(type, bytes, isLittleEndian), shape: lengths };
    return isColumnMajor === true ? { ...array, data: toRowMajor(array.data, lengths) } : array;
  }
}

function arrayOf(...state: unknown[]): NumpyArray {
  const array = new NumpyArray();
  array.setState(state);
  return array;
}

/** A number of its own: bool as such, a whole one beyond 2^53 as bigint. */
function scalar([dtype, raw]: readonly unknown[]): number | bigint | boolean {
  const { data, dtype: own } = arrayOf(1, [], dtype, false, raw).read(), value = data[0]!;
  if (own === "bool") return value === 1;
  return Number.isSafeInteger(Number(value)) ? Number(value) : value;
}

const functions: Readonly<Record<string, (args: readonly unknown[]) => unknown>> = {
  "multiarray._reconstruct": () => new NumpyArray(),
  "multiarray.scalar": scalar,
  "numeric._frombuffer": ([raw, dtype, shape, order]) =>
    arrayOf(1, shape, dtype, order === "F", raw),
};

/** Functions that NumPy's pickles call, by module and name; version 2 has moved its modules. */
export const numpyNames: readonly (readonly [string, Callable])[] = [
  ["numpy.dtype", new Callable("numpy.dtype", ([name]) => new NumpyType(name))],
  ...Object.entries(functions).flatMap(([name, fn]) =>
    ["numpy.core", "numpy._core"].map((module) =>
      [`${module}.${name}`, new Callable(`numpy.${name}`, fn)] as const
    )
  ),
];
