/** QR factorizations on GPUs: two launches a panel, and one more for Q. */
import { callDeviceKernel } from "../../ops/custom/device_kernel.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { full } from "../../ops/creation/sequences.ts";
import { batchOf, block, identityLike, sides } from "../common/matrices.ts";
import {
  MAX_PARTS,
  type QRPanel,
  qrPanelText,
  REFLECTED,
  type Reflecting,
  reflectText,
} from "./qr_texts.ts";
import type { Tensor } from "../../core/mod.ts";

/** Numbers of an item: more would not fit the registers. */
const MAX_OWN = { float32: 64, float64: 32 } as const;
const MAX_COLUMNS = { float32: 32, float64: 16 } as const;
const MIN_COLUMNS = 4, MIN_ITEMS = 64, MAX_ITEMS = 512;
/** Rows that the registers of a group hold with fewest columns. */
const MAX_ROWS = { float32: 8192, float64: 4096 } as const;

/** Rows of the highest matrix that a group factors the panels of. */
export function isReflectable(a: Tensor): boolean {
  return sides(a)[0] <= MAX_ROWS[a.dtype as RealType];
}

function panelOf(a: Tensor, rows: number): QRPanel {
  const dtype = a.dtype as RealType, power = Math.max(MIN_ITEMS, 2 ** Math.ceil(Math.log2(rows)));
  const most = Math.min(MAX_ITEMS, a.device.clDevice!.maxWorkGroupSize);
  // Two rows an item, so that fewer items join what they have, where that leaves more columns.
  const items = Math.max(MIN_ITEMS, Math.min(most, power / 2)), each = Math.ceil(power / items);
  const room = Math.min(MAX_OWN[dtype] / each, MAX_PARTS[dtype] / items);
  return {
    dtype,
    columns: Math.max(MIN_COLUMNS, Math.min(MAX_COLUMNS[dtype], room)),
    items,
    rows: each,
  };
}

/** The reflections of a panel. */
interface Reflections {
  readonly v: Tensor;
  readonly turn: Tensor;
  readonly columns: number;
  readonly numbers: readonly [from: number, width: number];
}

/** Q of so many columns, and R of as many rows or of min(m, n); without gradients. */
export function qrByBlocks(a: Tensor, columns: number): { q: Tensor; r: Tensor } {
  const [m, n] = sides(a), least = Math.min(m, n), all: Reflections[] = [];
  let w = a;
  for (let from = 0; from < least;) {
    const plan = panelOf(a, m - from), width = Math.min(plan.columns, least - from);
    const [v, r, turn] = reflections(w, plan, from, width);
    const numbers = [from, width] as const;
    all.push({ v: v!, turn: turn!, columns: plan.columns, numbers });
    w = reflected(w, all.at(-1)!, r!);
    from += width;
  }
  const { device, dtype } = a;
  let q = identityLike(full("make", [...batchOf(a), m, columns], 1, { device, dtype }));
  if (columns > 0) { for (const part of all.reverse()) q = reflected(q, part, null); }
  return { q, r: block(w, [0, Math.max(columns, least)], null).triu() };
}

function reflections(w: Tensor, plan: QRPanel, from: number, width: number): Tensor[] {
  const [m, n] = sides(w), batch = batchOf(w), { dtype, columns, items } = plan;
  const square = { shape: [...batch, columns, columns], dtype }, name = "qr_panel";
  return callDeviceKernel(
    { name, key: JSON.stringify(plan), items, source: () => qrPanelText(plan, name) },
    [w],
    [{ shape: [...batch, m - from, columns], dtype }, square, square],
    [m, n, from, width],
    batch.reduce((product, side) => product * side, 1),
  );
}

/** The matrix turned by the reflections; with their triangle, R's part of a factorization. */
function reflected(
  a: Tensor,
  { v, turn, columns, numbers }: Reflections,
  r: Tensor | null,
): Tensor {
  const [m, n] = sides(a), batch = batchOf(a), dtype = a.dtype as RealType;
  const items = Math.min(MAX_ITEMS, a.device.clDevice!.maxWorkGroupSize), factors = r !== null;
  const plan: Reflecting = { dtype, columns, items, factors };
  const name = `${factors ? "qr_update" : "qr_product"}_${columns}`;
  return callDeviceKernel(
    { name, key: JSON.stringify(plan), items, source: () => reflectText(plan, name) },
    r ? [a, v, turn, r] : [a, v, turn],
    [{ shape: [...batch, m, n], dtype }],
    [m, n, ...numbers],
    batch.reduce((product, side) => product * side, Math.ceil(n / REFLECTED)),
  )[0]!;
}
