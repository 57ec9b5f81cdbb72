/** Random tensors: counter-based, so the same bits on every device and every evaluation. */
import { dtypes, Node, type Shape } from "../../backend/internal.ts";
import { checkedShape, made, type TensorOptions } from "./creation.ts";
import { DTypeError } from "../core/errors.ts";
import { nextRandom } from "../core/random_state.ts";
import type { Tensor } from "../tensor.ts";
import { shown } from "../core/options.ts";

/** Uniform in [0, 1), 24 bits. */
export function uniform(shape: Shape, options: TensorOptions = {}): Tensor {
  requireFloat("rand", options);
  const { seed, stream } = nextRandom();
  const node = new Node(
    { kind: "random", seed, stream },
    [],
    checkedShape("rand", shape),
    "float32",
  );
  return made(node, { ...options, requiresGrad: false }).cast(options.dtype ?? "float32");
}

function requireFloat(op: string, { dtype = "float32" }: TensorOptions): void {
  if (dtypes[dtype]?.kind === "float") return;
  throw new DTypeError(`Cannot ${op} in ${dtype}: pass a floating point type, or use randint`);
}

/** Normal, by the transform of G. Box and M. Muller, 1958. */
export function normal(shape: Shape, options: TensorOptions = {}): Tensor {
  requireFloat("randn", options);
  const plain: TensorOptions = { ...options, dtype: "float32" };
  const radius = uniform(shape, plain).neg().add(1).log().mul(-2).sqrt();
  const angle = uniform(shape, plain).mul(2 * Math.PI);
  return radius.mul(angle.cos()).cast(options.dtype ?? "float32");
}

/** Whole numbers from `low` to before `high`. */
export function integers(
  low: number,
  high: number,
  shape: Shape,
  options: TensorOptions = {},
): Tensor {
  if (!Number.isInteger(low) || !Number.isInteger(high) || high <= low || high - low > 2 ** 24) {
    throw new RangeError(
      `Cannot randint from ${shown(low)} to ${shown(high)}: pass whole numbers, at most ${
        2 ** 24
      } apart`,
    );
  }
  const dtype = options.dtype ?? "int32";
  return uniform(shape, { ...options, dtype: "float32" }).mul(high - low).floor().add(low).cast(
    dtype,
  );
}
