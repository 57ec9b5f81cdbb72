/** Calls of the texts of this folder. */
import type { Shape } from "../../../backend/internal.ts";
import { callDeviceKernel } from "../../ops/custom/device_kernel.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { batchOf } from "../common/matrices.ts";
import { BLOCK_ITEMS } from "./block_texts.ts";
import type { Tensor } from "../../core/mod.ts";

/** The text of a kernel for a type. */
export type BlockText = (dtype: RealType, name: string) => string;

/** A result: the axes behind those of the batch; whole numbers, else of the matrices' type. */
export interface BlockOutput {
  readonly shape: Shape;
  readonly isWhole?: boolean;
}

/**
 * Calls a kernel whose groups are 16 x 16 work-items.
 *
 * @param groups Groups of a matrix.
 */
export function callBlocks(
  name: string,
  text: BlockText,
  inputs: readonly Tensor[],
  outputs: readonly BlockOutput[],
  numbers: readonly number[],
  groups: number,
): Tensor[] {
  const batch = batchOf(inputs[0]!), dtype = inputs[0]!.dtype as RealType;
  return callDeviceKernel(
    { name, key: dtype, items: BLOCK_ITEMS, source: () => text(dtype, name) },
    inputs,
    outputs.map(({ shape, isWhole }) => ({
      shape: [...batch, ...shape],
      dtype: isWhole ? "int32" as const : dtype,
    })),
    numbers,
    groups * batch.reduce((all, side) => all * side, 1),
  );
}
