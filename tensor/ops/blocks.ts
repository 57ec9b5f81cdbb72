/** Weights of few bits: the bytes of blocks on a device, and the numbers that they stand for. */
import {
  blockBytes,
  type BlockFormatName,
  type DType,
  fieldsApart,
  formatTable,
  isFloat,
  Node,
  type Shape,
  sizeOf,
} from "../../backend/internal.ts";
import type { TensorOptions } from "../core/arguments.ts";
import { result } from "../core/apply.ts";
import { nodeOf } from "../core/internals.ts";
import { dtypeError, shapeError } from "../core/rules/errors.ts";
import { requireValue, shown, takes } from "../core/rules/options.ts";
import type { Tensor } from "../core/mod.ts";
import { fromHost } from "./creation/host_data.ts";
import { checkedShape } from "./creation/tensor_options.ts";

const isFormat = takes.oneOf(...Object.keys(formatTable));

/** Copies the blocks of a file to the device, in the order in which kernels read them. */
export function fromBlocks(
  bytes: Uint8Array,
  format: BlockFormatName,
  options: Pick<TensorOptions, "device" | "backend" | "persistent"> = {},
): Tensor {
  requireValue("make a tensor of blocks", "format", format, isFormat);
  if (!(bytes instanceof Uint8Array)) {
    throw new TypeError(
      `Cannot make a tensor of blocks of ${shown(bytes)}: pass a Uint8Array with their bytes`,
    );
  }
  const size = blockBytes(formatTable[format]);
  if (bytes.length % size !== 0) {
    throw shapeError("fromBlocks")`
      Cannot make a tensor of ${format} blocks: ${bytes.length} bytes are no multiple of the
      ${size} of a block`;
  }
  return fromHost(fieldsApart(bytes, formatTable[format]), { ...options, dtype: "uint8" });
}

/** The numbers that blocks stand for; kernels decode them where they read them. */
export function decodeBlocks(
  x: Tensor,
  format: BlockFormatName,
  shape: Shape,
  dtype: DType = "float32",
): Tensor {
  requireValue("decode blocks", "format", format, isFormat);
  if (x.dtype !== "uint8") {
    throw dtypeError("decodeBlocks")`
      Cannot decode blocks of ${x.dtype}: Tensor.fromBlocks makes uint8`;
  }
  if (!isFloat(dtype)) {
    throw dtypeError("decodeBlocks")`Cannot decode blocks as ${dtype}: name a floating type`;
  }
  const { elements } = formatTable[format], wanted = checkedShape("decode", shape);
  if ((wanted.at(-1) ?? 1) % elements !== 0) {
    throw shapeError("decodeBlocks")`
      Cannot decode ${format} blocks as ${wanted}: the last axis must be a multiple of the
      ${elements} elements of a block`;
  }
  const nbytes = sizeOf(wanted) / elements * blockBytes(formatTable[format]);
  if (nbytes !== x.size) {
    throw shapeError("decodeBlocks")`
      Cannot decode ${format} blocks as ${wanted}: that takes ${nbytes} bytes, not ${x.size}`;
  }
  return result(
    "decodeBlocks",
    [x],
    new Node({ kind: "decode", format }, [nodeOf(x)], wanted, dtype),
    null,
  );
}
