/**
 * Weights as models hold them: matrices of numbers, and matrices of blocks that stay packed. This folder
 * (`weights/`) imports formats of `io/gguf`, modules of `nn/module` and operations.
 */
import { type DType, fieldPlaces, type Shape } from "../../../backend/internal.ts";
import { compute } from "../../core/operations.ts";
import { result } from "../../core/apply.ts";
import { Tensor } from "../../class/tensor.ts";
import { blockFormatOf, type BlockType } from "../../io/gguf/gguf_format.ts";
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

  /**
   * Some of the parts of equal size that lie one behind the other, in the order of ids: a matrix of their rows where
   * the whole is one part after the other, of their columns where each row is.
   *
   * @param lead Rows of which each has all parts; 1 for parts that are rows.
   * @param parts Their number.
   * @param ids Whole numbers of (count).
   */
  chosen(lead: number, parts: number, ids: Tensor): PackedMatrix {
    const [rows, columns] = this.shape as [number, number], count = ids.size;
    const format = blockFormatOf(this.type)!, blocks = rows * columns / format.elements;
    let at = 0;
    // The bytes of each field of all blocks lie together.
    const fields = Object.values(fieldPlaces(format)).map(({ bytes }) => {
      const own = this.blocks.slice([at, at += blocks * bytes]);
      return own.reshape([lead, parts, -1]).indexSelect(1, ids).reshape([-1]);
    });
    const shape = lead === 1 ? [rows / parts * count, columns] : [rows, columns / parts * count];
    return new PackedMatrix(this.type, Tensor.concat(fields), shape);
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
