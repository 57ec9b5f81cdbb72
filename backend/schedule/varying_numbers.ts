/**
 * Numbers that differ from step to step, such as a learning rate or a weight that is warmed up, in graphs that are
 * else the same. A plan has the numbers of its graph in its kernels, so each of them would be planned anew.
 */
import type { DType, TypedArray } from "../graph/dtype.ts";
import type { Node } from "../graph/node.ts";
import { Signature } from "../graph/signature.ts";
import type { Request } from "./lower.ts";

/** A number that differed so often is expected to differ: those that change now and then stay in kernels. */
const MIN_CHANGES = 3;

/** Forms of graphs that are remembered. */
const MAX_FORMS = 512;

/** Types in which a number is the same as a parameter of a kernel and in memory. */
const arrays: Partial<Record<DType, new (values: number[]) => TypedArray>> = {
  float32: Float32Array,
  float64: Float64Array,
  int32: Int32Array,
};

/** The numbers of a form of graphs when it was met last, and how often each has changed. */
interface Numbers {
  readonly values: Float64Array;
  readonly changes: Uint8Array;
}

/** Counts how often the numbers of graphs change. */
export class VaryingNumbers {
  readonly #forms = new Map<number, Numbers>();
  readonly #signature = new Signature(false);

  /**
   * Has those of a new graph's numbers read as data that differ each time; true where there are such.
   *
   * @param request The graph, which no plan is known for.
   * @param ahead Words for what will be made of it and asked for.
   */
  becomeData({ order, wanted, later }: Request, ahead: readonly (string | number)[]): boolean {
    const numbers = order.filter(isNumber);
    if (numbers.length === 0) return false;
    this.#signature.describe(order, wanted, later, ahead);
    const { hash } = this.#signature, form = this.#forms.get(hash);
    if (form?.values.length !== numbers.length) {
      if (this.#forms.size >= MAX_FORMS) this.#forms.clear();
      const values = Float64Array.from(numbers, valueOf);
      this.#forms.set(hash, { values, changes: new Uint8Array(numbers.length) });
      return false;
    }
    const { values, changes } = form;
    numbers.forEach((node, k) => {
      const value = valueOf(node);
      if (changes[k]! < MIN_CHANGES && !Object.is(values[k], value)) changes[k]!++;
      values[k] = value;
    });
    const varying = numbers.filter((_, k) => changes[k] === MIN_CHANGES);
    for (const node of varying) {
      node.becomeData(new Uint8Array(new arrays[node.dtype]!([valueOf(node)]).buffer));
    }
    return varying.length > 0;
  }
}

function isNumber({ op, size, dtype, storage }: Node): boolean {
  return op.kind === "constant" && size === 1 && dtype in arrays && storage === null;
}

const valueOf = ({ op }: Node): number => op.kind === "constant" ? op.value : NaN;
