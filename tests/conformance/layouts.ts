/** Ways in which the same logical tensor may lie in memory, or not lie there at all. */
import { type BackendName, type DType, Tensor, type TypedArray } from "../../mod.ts";
import { decode, type Value } from "./fixture.ts";

/** A tensor with the values of `value`, and the leaf in memory that it is a view of. */
export interface Laid {
  readonly tensor: Tensor;
  readonly leaf: Tensor;
  /** The view again, of another tensor in the place of the leaf: of its gradient. */
  readonly view: (leaf: Tensor) => Tensor;
}

/** Rows in a layout: the shape in memory, where each element goes, and the view. */
interface Plan {
  readonly shape: readonly number[];
  readonly place: (coordinates: readonly number[]) => readonly number[];
  readonly view: (leaf: Tensor) => Tensor;
}

type Planner = (shape: readonly number[]) => Plan;

/** Every second element of a larger array, the first axis from its end. */
const strided: Planner = (shape) => ({
  shape: shape.map((n) => 2 * n + 1),
  place: (at) => at.map((i, axis) => axis === 0 ? 2 * (shape[0]! - i) - 1 : 2 * i + 1),
  view: (leaf) =>
    leaf.slice(
      ...shape.map((n, axis): [number, number, number] =>
        axis === 0 && n > 0 ? [2 * n - 1, -2 * n - 1, -2] : [1, 2 * n, 2]
      ),
    ),
});

const planners = {
  /** Row-major, as it was made. */
  plain: (shape) => ({ shape, place: (at) => at, view: (leaf) => leaf }),
  /** The axes in reverse order. */
  permuted: (shape) => ({
    shape: shape.toReversed(),
    place: (at) => at.toReversed(),
    view: (leaf) => leaf.permute(shape.map((_, axis) => shape.length - 1 - axis)),
  }),
  strided,
  /** Not in memory: what reads it must compute it. */
  computed: (shape) => ({
    shape,
    place: (at) => at,
    view: (leaf) => leaf.dtype === "bool" ? leaf.logicalNot().logicalNot() : leaf.neg().neg(),
  }),
  /** Two parts, one behind the other. */
  joined: (shape) => ({
    shape,
    place: (at) => at,
    view: (leaf) =>
      shape.length === 0 ? leaf : Tensor.concat([leaf.slice([0, 1]), leaf.slice([1, null])]),
  }),
} satisfies Record<string, Planner>;

/** The name of a layout. */
export type Layout = keyof typeof planners;

/** All of them. */
export const layouts = Object.keys(planners) as Layout[];

function* coordinatesOf(shape: readonly number[]): Generator<number[]> {
  const size = shape.reduce((a, b) => a * b, 1);
  for (let k = 0; k < size; k++) {
    const at: number[] = [];
    let rest = k;
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      at.unshift(rest % shape[axis]!);
      rest = Math.floor(rest / shape[axis]!);
    }
    yield at;
  }
}

function linear(at: readonly number[], shape: readonly number[]): number {
  return at.reduce((sum, i, axis) => sum * shape[axis]! + i, 0);
}

/** Host data of a type, `garbage` where nothing is placed. */
function arrayOf(dtype: DType, size: number): TypedArray | number[] {
  if (dtype === "int64") return new BigInt64Array(size).fill(77n);
  if (/^u?int/.test(dtype)) return new Array<number>(size).fill(77);
  return new Array<number>(size).fill(dtype === "bool" ? 1 : NaN);
}

/** Puts a value in memory by a layout. */
export function lay(
  value: Value,
  layout: Layout,
  options: { backend: BackendName; dtype?: DType; requiresGrad?: boolean },
): Laid {
  const dtype = options.dtype ?? value.dtype;
  const plan = (planners[layout] as Planner)(value.shape);
  const size = plan.shape.reduce((a, b) => a * b, 1);
  const data = arrayOf(dtype, size);
  let k = 0;
  for (const at of coordinatesOf(value.shape)) {
    const element = value.data[k++]!;
    const to = linear(plan.place(at), plan.shape);
    if (data instanceof BigInt64Array) data[to] = BigInt(element);
    else data[to] = decode(element);
  }
  const leaf = Tensor.fromHost(data as TypedArray, {
    backend: options.backend,
    dtype,
    shape: plan.shape,
    requiresGrad: options.requiresGrad ?? false,
  });
  return { tensor: plan.view(leaf), leaf, view: plan.view };
}
