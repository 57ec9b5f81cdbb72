/** Sizes of minimal filtering, and the facts and numbers of a product that its programs take. */
import { coefficient } from "../../../kernel/affine.ts";
import type { WindowProduct } from "../../../kernel/forms/window_product.ts";
import { extent } from "../../../kernel/kernel.ts";

/** Outputs of a tile along an axis, taps of a kernel, elements that a tile reads. */
export const TILE = 4, TAPS = 3, PATCH = 6;
/** Products for each tile. */
export const POINTS: number = PATCH * PATCH;
/** Rows that are multiplied together, and their room. */
export const GROUP_ROWS = 6, GROUP_ROOM = 8;
/** Columns that are multiplied together. */
export const PANEL_COLUMNS = 8;

/** Operands and results, and what their indices count. */
export type Operand = "image" | "other" | "target";
export type Role = "rows" | "channels" | "images";

/** Rows in groups of up to six: the first `long` of them have `rows`, the others one less. */
export interface RowGroups {
  readonly count: number;
  readonly rows: number;
  readonly long: number;
}

/** As few groups as there can be, of nearly equal length. */
export function groupRows(rows: number): RowGroups {
  const count = Math.ceil(rows / GROUP_ROWS), longest = Math.ceil(rows / count);
  return { count, rows: longest, long: rows - count * (longest - 1) };
}

/** Floats from row to row of so many: a column's rows do not meet in the same few lines of a cache. */
export const pitchOf = (columns: number): number => columns % 32 === 0 ? columns + 16 : columns;

/** Floats of a plane: with what is left free behind it planes do not meet in the same few lines of a cache. */
export const planeOf = (floats: number): number => Math.ceil(floats / 1024) * 1024 + 80;
/** The same with room for others, whose programs are one then. */
export const roomOf = (floats: number, least: number): number =>
  planeOf(Math.max(least, 2 ** Math.ceil(Math.log2(floats))));

/** Facts of a product that its programs depend on: sizes are arguments. */
export interface FilteringForm {
  /** Rows of a group, and whether others have one less. */
  readonly rows: number;
  readonly hasShorter: boolean;
  /** Tiles fill all images. */
  readonly isDivided: boolean;
  /** Taps of a kernel as places of a run of nine that lie side by side; null where they do not. */
  readonly run: readonly number[] | null;
  /** Numbers of loops. */
  readonly loops: Readonly<Record<Role, number>>;
}

const loopsOf = (loops: readonly number[], map: (s: number, k: number) => [string, number]) =>
  Object.fromEntries(loops.map(map));

/** The form of a product, and its numbers by name. */
export function filteringOf(product: WindowProduct) {
  const { kernel, target, image, other, rows, channels, images, loops } = product;
  const { sizes } = kernel, { count, rows: longest, long } = groupRows(extent(kernel, rows));
  const [height, width] = [sizes[loops.y]!, sizes[loops.x]!];
  const down = Math.ceil(height / TILE), across = Math.ceil(width / TILE);
  const taps = Array.from(
    { length: TAPS * TAPS },
    (_, k) =>
      Math.floor(k / TAPS) * coefficient(other.index, loops.tapY) +
      k % TAPS * coefficient(other.index, loops.tapX),
  );
  const low = Math.min(...taps), isRun = Math.max(...taps) - low < taps.length;
  const roles = { rows, channels, images },
    operands = { image: image.index, other: other.index, target };
  const form: FilteringForm = {
    ...{ rows: longest, hasShorter: long < count },
    isDivided: height % TILE === 0 && width % TILE === 0,
    run: isRun && !product.isGradient ? taps.map((at) => at - low) : null,
    loops: {
      rows: Math.max(1, rows.length),
      channels: Math.max(1, channels.length),
      images: Math.max(1, images.length),
    },
  };
  const numbers: Record<string, number> = {
    ...{ height, width, down, across, tiles: down * across * extent(kernel, images) },
    ...{ groups: count, long },
  };
  for (const [role, symbols] of Object.entries(roles)) {
    numbers[role] = extent(kernel, symbols);
    Object.assign(numbers, loopsOf(symbols, (s, k) => [`${role}${k}`, sizes[s]!]));
  }
  for (const [operand, index] of Object.entries(operands)) {
    numbers[operand] = index.offset + (operand === "other" && form.run ? low : 0);
    Object.assign(
      numbers,
      ...Object.entries(roles).map(([role, symbols]) =>
        loopsOf(symbols, (s, k) => [`${operand} ${role}${k}`, coefficient(index, s)])
      ),
      loopsOf(
        Object.values(loops),
        (s, k) => [`${operand} ${Object.keys(loops)[k]}`, coefficient(index, s)],
      ),
    );
  }
  return { form, numbers };
}
