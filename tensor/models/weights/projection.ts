import { requireTensor } from "../../core/apply.ts";
import { shapeError } from "../../core/rules/errors.ts";
import type { Tensor } from "../../core/mod.ts";
import { Module } from "../../nn/module/module.ts";
import { PackedMatrix } from "./packed_matrix.ts";

/** A matrix of weights: numbers, or blocks that stay packed. */
export type Weight = Tensor | PackedMatrix;

/**
 * `x Wᵀ + b` with weights that were made elsewhere: (..., columns) gives (..., rows). Frozen at first.
 */
export class Projection extends Module {
  /** (rows, columns). */
  weight: Weight;
  /** (rows), or null. */
  bias: Tensor | null;
  /** True for a part of a matrix whose other parts other ranks have. */
  readonly isPart: boolean;

  /** Takes the weights; they belong to the layer from now on. */
  constructor(weight: Weight, bias: Tensor | null = null, isPart = false) {
    super();
    this.weight = weight;
    this.bias = bias;
    this.isPart = isPart;
  }

  /**
   * Maps the last axis.
   *
   * @throws {ShapeError} When the last axis is not as long as the matrix has columns.
   */
  forward(x: Tensor): Tensor {
    requireTensor("run Projection", x);
    const { weight } = this, [, columns] = weight.shape;
    if (x.shape.at(-1) !== columns) {
      throw shapeError("Projection")`
        Cannot run Projection on a tensor of shape ${x.shape}: its last axis must have ${columns}
        elements`;
    }
    const product = weight instanceof PackedMatrix
      ? weight.forward(x)
      : x.matmul(weight.transpose());
    return this.bias ? product.add(this.bias.cast(product.dtype)) : product;
  }
}

/** Vectors of tokens, which may be the matrix of the last layer, too. */
export class TokenEmbedding extends Module {
  /** (tokens, features). */
  weight: Weight;

  /** Takes the vectors; they belong to the layer from now on. */
  constructor(weight: Weight) {
    super();
    this.weight = weight;
  }

  /** Looks vectors up: ids (...) give (..., features). */
  forward(ids: Tensor): Tensor {
    const { weight } = this;
    return weight instanceof PackedMatrix ? weight.rows(ids) : weight.embedding(ids);
  }
}
