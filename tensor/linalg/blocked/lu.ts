/** LU factorizations on GPUs: two launches a panel. */
import { hasMma, hasWarps, sameShape } from "../../../backend/internal.ts";
import { callDeviceKernel, runsInGroups } from "../../ops/custom/device_kernel.ts";
import { epsilon, type RealType } from "../../ops/custom/matrix_kernel.ts";
import { full } from "../../ops/creation/sequences.ts";
import { batchOf, sides } from "../common/matrices.ts";
import { blockSides } from "./block_texts.ts";
import { callBlocks } from "./blocks.ts";
import {
  type LUPanel,
  luPanelText,
  luUpdateText,
  type SmallSolve,
  smallSolveText,
} from "./lu_texts.ts";
import type { Tensor } from "../../core/mod.ts";

/** Columns of a panel; those of doubles take twice the registers. */
const MAX_COLUMNS = { float32: 32, float64: 16 } as const;
/**
 * Work-items of a group, and numbers of an item: more would not fit the registers beside what it computes with.
 * On NVIDIA's processors fewer items of more registers share a pivot sooner.
 */
const limits = { nvidia: { items: 512, own: 64 }, others: { items: 1024, own: 32 } } as const;
const MIN_COLUMNS = 4, MIN_ITEMS = 32;

/** A device's share in a plan. */
interface Units {
  readonly limit: { readonly items: number; readonly own: number; readonly most: number };
  readonly reduces: boolean;
}

function unitsOf(a: Tensor): Units {
  const device = a.device.clDevice!;
  const limit = limits[hasWarps(device) ? "nvidia" : "others"];
  return { limit: { ...limit, most: device.maxWorkGroupSize }, reduces: hasMma(device) };
}

/** The panel of so many rows, of a matrix of so many columns. */
function panelOf(a: Tensor, rows: number, units: Units, fills: boolean): LUPanel {
  const dtype = a.dtype as RealType, [m, n] = sides(a), { limit, reduces } = units;
  const power = 2 ** Math.ceil(Math.log2(rows));
  const items = Math.max(MIN_ITEMS, Math.min(power, limit.items, limit.most));
  const own = Math.max(1, power / items), fitting = limit.own / own / (dtype === "float64" ? 2 : 1);
  const most = Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS[dtype], Math.floor(fitting)));
  const columns = Math.min(most, m, n), isAll = rows === m && columns === n;
  return { dtype, columns, items, rows: own, fills, isAll, reduces };
}

/** The number that replaces a pivot of 0: nothing beside the largest element. */
function tinyOf(a: Tensor): Tensor {
  const most = a.abs().max([-2, -1]);
  return most.gt(0).where(most, 1).mul(epsilon[a.dtype as RealType]);
}

/** Factors in LAPACK's form, the order of their rows, exchanges of rows, and the first pivot of 0. */
export function luByBlocks(
  a: Tensor,
  fills: boolean,
): { lu: Tensor; permutation: Tensor; swaps: Tensor; info: Tensor } {
  const [m, n] = sides(a), batch = batchOf(a), { device } = a, least = Math.min(m, n);
  const matrices = batch.reduce((all, side) => all * side, 1),
    side = blockSides[a.dtype as RealType];
  const units = unitsOf(a), tiny = fills ? [tinyOf(a)] : [];
  let state = full("make", [...batch, 2], 0, { device, dtype: "int32" });
  let lu = a;
  let permutation = a.indexLike([m]).cast("int32").expand([...batch, m]);
  for (let from = 0; from < least;) {
    const plan = panelOf(a, m - from, units, fills), { columns, isAll } = plan;
    const width = Math.min(columns, least - from), numbers = [m, n, from, width];
    const [panel, order, inverse, next] = callDeviceKernel(
      {
        name: "lu_panel",
        key: JSON.stringify(plan),
        items: plan.items,
        source: () => luPanelText(plan, "lu_panel"),
      },
      [lu, state, ...tiny],
      [
        { shape: [...batch, m - from, columns], dtype: plan.dtype },
        { shape: [...batch, m - from], dtype: "int32" },
        { shape: [...batch, columns, columns], dtype: plan.dtype },
        { shape: [...batch, 2], dtype: "int32" },
      ],
      numbers,
      matrices,
    );
    state = next!;
    if (isAll) {
      lu = panel!;
      permutation = order!;
      break;
    }
    [lu, permutation] = callBlocks(
      `lu_update_${columns}`,
      (dtype, name) => luUpdateText(dtype, columns, name),
      [lu, panel!, order!, inverse!, permutation],
      [{ shape: [m, n] }, { shape: [m], isWhole: true }],
      numbers,
      Math.ceil(m / side) * Math.ceil(n / side),
    ) as [Tensor, Tensor];
    from += width;
  }
  const part = (k: number) => state.slice(...batch.map(() => null), [k, k + 1]);
  return { lu, permutation, swaps: part(0), info: part(1) };
}

/** Rows of systems that a group solves, and right sides of it. */
const MAX_SMALL = 64, MAX_SIDES = 16;

/** True where a group solves a system by its factors. */
export function isSmall(lu: Tensor, b: Tensor): boolean {
  return runsInGroups(b.device) && b.size > 0 && sides(b)[0] <= MAX_SMALL &&
    sameShape(batchOf(lu), batchOf(b));
}

/** X of A X = B by the factors of A, in one launch; all have the same leading axes. */
export function smallSolved(lu: Tensor, permutation: Tensor, b: Tensor): Tensor {
  const [n, r] = sides(b), dtype = b.dtype as RealType;
  const side = Math.max(16, 2 ** Math.ceil(Math.log2(n)));
  const columns = Math.min(MAX_SIDES, 2 ** Math.ceil(Math.log2(r)));
  const items = Math.max(MIN_ITEMS, Math.min(side * columns / 2, 256));
  const plan: SmallSolve = { dtype, side, columns, items }, name = "lu_solve";
  return callDeviceKernel(
    { name, key: JSON.stringify(plan), items, source: () => smallSolveText(plan, name) },
    [lu, permutation, b],
    [{ shape: b.shape, dtype }],
    [n, r],
    b.size / n / r * Math.ceil(r / columns),
  )[0]!;
}
