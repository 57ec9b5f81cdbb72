import {
  type DType,
  dtypes,
  fromBfloat16Bits,
  type TypedArray,
} from "../../../../backend/internal.ts";
import { decodeElements, elementBytes, encodeElements } from "../../../io/core/elements.ts";
import { FileFormatError, shown } from "../../../io/core/file_format_error.ts";
import { checkedSize, type HostArray } from "../../../io/core/host_array.ts";
import type { TensorProto } from "./schema.ts";
import { type OnnxType, typeByNumber, typeOf } from "./types.ts";

/** A tensor of a file, with its type there. */
export interface OnnxArray extends HostArray {
  /** Its type in the file. */
  readonly type: OnnxType;
}

/** Bytes of the files beside the model, by their names. */
export type ExternalData = (location: string) => Uint8Array<ArrayBuffer>;

/**
 * The values of a tensor in a file.
 *
 * @throws {FileFormatError} Where it is damaged.
 * @throws {TypeError} When its type is not read.
 */
export function decodeTensor(proto: TensorProto, external?: ExternalData): OnnxArray {
  const type = typeByNumber(proto.data_type ?? 0), what = `Tensor ${shown(proto.name ?? "")}`;
  const size = checkedSize(proto.dims, what), bytes = bytesOf(proto, external);
  const fileBytes = type.isPaired ? Math.ceil(size / 2) : size * elementBytes(type.layout);
  const data = bytes
    ? heldBy(type, checkedBytes(bytes, fileBytes, what), size)
    : listed(proto, type, size);
  if (data.length !== size) {
    throw new FileFormatError(`${what} has ${data.length} elements: its shape takes ${size}`);
  }
  return { data, dtype: type.dtype, shape: proto.dims, type };
}

/** Elements in the type that holds them. */
function heldBy(type: OnnxType, bytes: Uint8Array<ArrayBuffer>, size: number): TypedArray {
  return decodeElements(type.layout, type.isPaired ? halves(bytes, type, size) : bytes).data;
}

/** The numbers of four bits in bytes, one a byte. */
function halves(pairs: ArrayLike<number>, { dtype }: OnnxType, size: number) {
  const isSigned = dtype === "int8";
  return Uint8Array.from({ length: Math.min(size, 2 * pairs.length) }, (_, k) => {
    const bits = pairs[k >> 1]! >> 4 * (k & 1) & 15;
    return isSigned && bits > 7 ? bits - 16 : bits;
  });
}

function checkedBytes(bytes: Uint8Array<ArrayBuffer>, expected: number, what: string) {
  if (bytes.length === expected) return bytes;
  throw new FileFormatError(`${what} has ${bytes.length} bytes: its shape takes ${expected}`);
}

function bytesOf(proto: TensorProto, external?: ExternalData): Uint8Array<ArrayBuffer> | undefined {
  if (proto.data_location !== 1) return proto.raw_data;
  const entries = Object.fromEntries(proto.external_data.map(({ key, value }) => [key, value]));
  const { location, offset = "0", length } = entries, name = shown(proto.name ?? "");
  if (location === undefined || !external) {
    throw new FileFormatError(`Tensor ${name} lies in another file, which cannot be had`);
  }
  const all = external(location), from = Number(offset);
  const to = length === undefined ? all.length : from + Number(length);
  const isPlace = Number.isInteger(from) && Number.isInteger(to) && from >= 0;
  if (!(isPlace && to >= from && to <= all.length)) {
    throw new FileFormatError(`Tensor ${name} lies beyond the end of ${shown(location)}`);
  }
  return all.subarray(from, to);
}

/** Elements that stand in the file as numbers of their own. */
function listed(proto: TensorProto, type: OnnxType, size: number): TypedArray {
  const { layout, dtype } = type;
  const { float_data, double_data, int64_data, uint64_data, int32_data } = proto;
  switch (layout) {
    case "f4":
      return Float32Array.from(float_data);
    case "f8":
      return Float64Array.from(double_data);
    case "u4":
      return Uint32Array.from(uint64_data);
    case "i8":
      return BigInt64Array.from(
        int64_data.length > 0 ? int64_data : uint64_data,
        (n: number) => BigInt.asIntN(64, BigInt(n)),
      );
    case "f2":
      return new Float16Array(Uint16Array.from(int32_data).buffer);
    case "bf":
      return Float32Array.from(int32_data, fromBfloat16Bits);
    default:
      return type.isPaired
        ? heldBy(type, Uint8Array.from(int32_data), size)
        : wholeNumbers(int32_data, dtype);
  }
}

function wholeNumbers(numbers: readonly number[], dtype: DType): TypedArray {
  const { bytes, view } = dtypes[dtype];
  const data = view(new ArrayBuffer(bytes * numbers.length), 0, numbers.length);
  (data as Int32Array).set(numbers);
  return data;
}

/** The message of a tensor. */
export function encodeTensor(
  name: string,
  { data, shape, dtype }: { data: TypedArray; shape: readonly number[]; dtype: DType },
): Record<string, unknown> {
  const raw_data = encodeElements(data, dtype);
  return { name, dims: shape, data_type: typeOf(dtype).number, raw_data };
}
