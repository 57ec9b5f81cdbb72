import type { Tensor } from "../../core/mod.ts";
import { checkOptions, type Rules, takes } from "../../core/rules/options.ts";
import { Linear } from "../layers/linear.ts";
import { nameFrom, type StateNames } from "../module/members.ts";
import { Module } from "../module/module.ts";
import { requireSizes } from "../module/sizes.ts";

const rules: Rules<{ bias?: boolean }> = { bias: takes.bool };

const names: StateNames = {
  gateProj: "gate_proj",
  upProj: "up_proj",
  downProj: "down_proj",
};

/**
 * The gated feed-forward layer of Llama and its kin, `down(silu(gate(x)) * up(x))` (N. Shazeer, GLU
 * Variants Improve Transformer, 2020): (..., features) gives (..., features).
 *
 * @example
 * ```ts
 * import { nn, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const mlp = new nn.SwiGLU(16, 44);
 * assertEquals(mlp.forward(Tensor.randn([2, 5, 16])).shape, [2, 5, 16]);
 * assertEquals(Object.keys(mlp.stateDict())[0], "gate_proj.weight");
 * ```
 */
export class SwiGLU extends Module {
  /** features to hidden, what silu is taken of. */
  gateProj: Linear;
  /** features to hidden, what the gate multiplies. */
  upProj: Linear;
  /** hidden to features. */
  downProj: Linear;

  /**
   * Makes the layer.
   *
   * @param features The length of the last axis.
   * @param hidden The length in between; 8 / 3 of the features costs as much as a plain layer of 4.
   * @param options `bias: true` for biases; default none.
   * @throws {RangeError} When a length is no whole number of at least 0.
   */
  constructor(features: number, hidden: number, options: { bias?: boolean } = {}) {
    super();
    requireSizes("SwiGLU", { features, hidden });
    checkOptions("make a SwiGLU", options, rules);
    const { bias = false } = options;
    this.gateProj = new Linear(features, hidden, { bias });
    this.upProj = new Linear(features, hidden, { bias });
    this.downProj = new Linear(hidden, features, { bias });
  }

  /** PyTorch's names. */
  protected override stateName(property: string): string {
    return nameFrom(names, property) ?? super.stateName(property);
  }

  /**
   * Maps the last axis.
   *
   * @throws {ShapeError} When the last axis does not have `features` elements.
   */
  forward(x: Tensor): Tensor {
    return this.downProj.forward(this.gateProj.forward(x).silu().mul(this.upProj.forward(x)));
  }
}
