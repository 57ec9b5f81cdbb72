/** The messages of ONNX (onnx.proto of version 1.22), as far as they are read and written. */
import { decodeMessage, encodeMessage, type Message } from "./protobuf.ts";

/** A tensor in a file. */
export interface TensorProto {
  /** Its shape. */
  dims: number[];
  /** The number of its element type. */
  data_type?: number;
  /** Its name. */
  name?: string;
  /** Elements of float32 (and parts of complex ones). */
  float_data: number[];
  /** Elements of all types of up to 32 bits but float32. */
  int32_data: number[];
  /** Elements of int64. */
  int64_data: number[];
  /** Elements of float64. */
  double_data: number[];
  /** Elements of uint32 and uint64. */
  uint64_data: number[];
  /** Texts. */
  string_data: Uint8Array<ArrayBuffer>[];
  /** All elements, little-endian. */
  raw_data?: Uint8Array<ArrayBuffer>;
  /** Place of the elements in another file: location, offset, length. */
  external_data: { key?: string; value?: string }[];
  /** 1 where they are in another file. */
  data_location?: number;
}

/** A setting of a node, beside its inputs. */
export interface AttributeProto {
  /** Its name. */
  name?: string;
  /** A number. */
  f?: number;
  /** A whole number. */
  i?: number;
  /** A text. */
  s?: Uint8Array<ArrayBuffer>;
  /** A tensor. */
  t?: TensorProto;
  /** A graph. */
  g?: GraphProto;
  /** Numbers. */
  floats: number[];
  /** Whole numbers. */
  ints: number[];
  /** Texts. */
  strings: Uint8Array<ArrayBuffer>[];
  /** The number of its type. */
  type?: number;
  /** The attribute of a function that it stands for. */
  ref_attr_name?: string;
}

/** An operation. */
export interface NodeProto {
  /** Names of values; "" for one that is left out. */
  input: string[];
  /** Names of values. */
  output: string[];
  /** Its own name. */
  name?: string;
  /** Its kind. */
  op_type?: string;
  /** The set of operators that the kind is of; "" for ONNX's own. */
  domain?: string;
  /** Its settings. */
  attribute: AttributeProto[];
}

/** A type of a value. */
export interface TypeProto {
  /** A tensor. */
  tensor_type?: {
    elem_type?: number;
    shape?: { dim: { dim_value?: number; dim_param?: string }[] };
  };
  /** A list of values. */
  sequence_type?: { elem_type?: TypeProto };
  /** A value that may be missing. */
  optional_type?: { elem_type?: TypeProto };
}

/** A named value. */
export interface ValueInfoProto {
  /** Its name. */
  name?: string;
  /** Its type. */
  type?: TypeProto;
}

/** Operations in order, and the values that they begin with. */
export interface GraphProto {
  /** Its name. */
  name?: string;
  /** Operations, each after those that it needs. */
  node: NodeProto[];
  /** Values that are known. */
  initializer: TensorProto[];
  /** Values that come in; those of initializers may be among them. */
  input: ValueInfoProto[];
  /** Values that go out. */
  output: ValueInfoProto[];
  /** Tensors with few elements that are not 0, which are not read. */
  sparse_initializer: unknown[];
}

/** A kind of operator that the file brings along. */
export interface FunctionProto {
  /** Its name. */
  name?: string;
  /** The set that it belongs to. */
  domain?: string;
  /** Names of its inputs within. */
  input: string[];
  /** Names of its outputs within. */
  output: string[];
  /** Its operations. */
  node: NodeProto[];
  /** Versions of the sets that it uses. */
  opset_import: { domain?: string; version?: number }[];
  /** Attributes with what they are where a node says nothing. */
  attribute_proto: AttributeProto[];
}

/** A whole file. */
export interface ModelProto {
  /** Version of the format. */
  ir_version?: number;
  /** The program that wrote the file. */
  producer_name?: string;
  /** Versions of the sets of operators that it uses. */
  opset_import: { domain?: string; version?: number }[];
  /** The graph. */
  graph?: GraphProto;
  /** Operators of its own. */
  functions: FunctionProto[];
}

const pair: Message = { 1: ["key", "text"], 2: ["value", "text"] };
const opset: Message = { 1: ["domain", "text"], 2: ["version", "int"] };
const tensor: Message = {
  1: ["dims", "ints"],
  2: ["data_type", "int"],
  4: ["float_data", "floats"],
  5: ["int32_data", "ints"],
  6: ["string_data", "bytesList"],
  7: ["int64_data", "ints"],
  8: ["name", "text"],
  9: ["raw_data", "bytes"],
  10: ["double_data", "doubles"],
  11: ["uint64_data", "ints"],
  13: ["external_data", "many", () => pair],
  14: ["data_location", "int"],
};
const dim: Message = { 1: ["dim_value", "int"], 2: ["dim_param", "text"] };
const shape: Message = { 1: ["dim", "many", () => dim] };
const tensorType: Message = { 1: ["elem_type", "int"], 2: ["shape", "one", () => shape] };
const holder: Message = { 1: ["elem_type", "one", () => type] };
const type: Message = {
  1: ["tensor_type", "one", () => tensorType],
  4: ["sequence_type", "one", () => holder],
  9: ["optional_type", "one", () => holder],
};
const valueInfo: Message = { 1: ["name", "text"], 2: ["type", "one", () => type] };
const attribute: Message = {
  1: ["name", "text"],
  2: ["f", "float"],
  3: ["i", "int"],
  4: ["s", "bytes"],
  5: ["t", "one", () => tensor],
  6: ["g", "one", () => graph],
  7: ["floats", "floats"],
  8: ["ints", "ints"],
  9: ["strings", "bytesList"],
  20: ["type", "int"],
  21: ["ref_attr_name", "text"],
};
const node: Message = {
  1: ["input", "texts"],
  2: ["output", "texts"],
  3: ["name", "text"],
  4: ["op_type", "text"],
  5: ["attribute", "many", () => attribute],
  7: ["domain", "text"],
};
const graph: Message = {
  1: ["node", "many", () => node],
  2: ["name", "text"],
  5: ["initializer", "many", () => tensor],
  11: ["input", "many", () => valueInfo],
  12: ["output", "many", () => valueInfo],
  15: ["sparse_initializer", "many", () => ({})],
};
const fn: Message = {
  1: ["name", "text"],
  4: ["input", "texts"],
  5: ["output", "texts"],
  7: ["node", "many", () => node],
  9: ["opset_import", "many", () => opset],
  10: ["domain", "text"],
  11: ["attribute_proto", "many", () => attribute],
};
const model: Message = {
  1: ["ir_version", "int"],
  2: ["producer_name", "text"],
  7: ["graph", "one", () => graph],
  8: ["opset_import", "many", () => opset],
  25: ["functions", "many", () => fn],
};

/**
 * Reads a file's bytes.
 *
 * @throws {FileFormatError} Where they are no message.
 */
export function decodeModel(bytes: Uint8Array<ArrayBuffer>): ModelProto {
  return decodeMessage(bytes, model) as unknown as ModelProto;
}

/** Reads a tensor that is alone in its file. */
export function decodeTensorProto(bytes: Uint8Array<ArrayBuffer>): TensorProto {
  return decodeMessage(bytes, tensor) as unknown as TensorProto;
}

/** Writes a file's bytes; lists that are left out are empty. */
export function encodeModel(fields: Record<string, unknown>): Uint8Array<ArrayBuffer> {
  return encodeMessage(fields, model);
}
