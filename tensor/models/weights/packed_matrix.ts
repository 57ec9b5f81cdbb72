/**
 * Weights as models hold them: matrices of numbers, and matrices of blocks that stay packed. This folder
 * (`weights/`) imports formats of `io/gguf`, modules of `nn/module` and operations.
 */
import type { DType, Shape } from "../../../backend/internal.ts";
import { compute } from "../../core/operations.ts";
import { result } from "../../core/apply.ts";
import type { Tensor } from "../../class/tensor.ts";
import type { BlockType } from "../../io/gguf/gguf_format.ts";
import { buffer } from "../../nn/module/parameter.ts";
import { Module } from "../../nn/module/module.ts";

/**
 * A matrix of quantised blocks that stays packed on its device; what reads it decodes it on the way. It
 * does not learn, and gradients go through products with it.
 */
export class PackedMatrix extends Module {
  /** The kind of its blocks. */
  readonly type: BlockType;
  /** (rows, columns), decoded. */
  readonly shape: Shape;
  /** The bytes of its blocks, as devices read them. */
  blocks: Tensor;

  /**
   * Takes blocks that are on a device.
   *
   * @param type What kind of blocks they are.
   * @param blocks The blocks of all rows, as `Tensor.fromBlocks` has them; they belong to the matrix from now on.
   * @param shape (rows, columns).
   */
  constructor(type: BlockType, blocks: Tensor, shape: Shape) {
    super();
    this.type = type;
    this.shape = shape;
    this.blocks = buffer(blocks);
  }

  /** The product `x Wᵀ`: (..., columns) gives (..., rows). */
  forward(x: Tensor): Tensor {
    return compute(packedProduct, x, this);
  }

  /** The whole matrix as numbers, (rows, columns). */
  decode(dtype: DType = "float32"): Tensor {
    return this.blocks.decodeBlocks(this.type, this.shape, dtype);
  }

  /** The rows of ids (...), decoded: (..., columns). */
  rows(ids: Tensor, dtype: DType = "float32"): Tensor {
    return this.decode(dtype).embedding(ids);
  }
}

/** A product with the matrix; its gradient decodes it once more, so that nothing decoded is kept. */
function packedProduct(x: Tensor, matrix: PackedMatrix): Tensor {
  const value = x.detach().matmul(matrix.decode(x.dtype).transpose());
  return result("product of blocks", [x], value, (g) => [g.matmul(matrix.decode(g.dtype))]);
}
