/**
 * Affine index expressions: `offset + sum(coefficient * symbol)`, where a symbol is a loop index of the
 * kernel (or an index that the kernel reads from memory). A view of a tensor only rewrites such
 * expressions; in the end one of them says which element of a buffer is read.
 */

/** One loop index times a whole number. */
export type Term = readonly [symbol: number, coefficient: number];

/** An affine expression. Terms are sorted by symbol and have no zero coefficient. */
export interface AffineExpr {
  readonly offset: number;
  readonly terms: readonly Term[];
}

/** The constant index 0. */
export const zero: AffineExpr = { offset: 0, terms: [] };

/** The index that is one symbol. */
export function symbol(id: number): AffineExpr {
  return { offset: 0, terms: [[id, 1]] };
}

/** `index * factor + offset`. */
export function scale(index: AffineExpr, factor: number, offset = 0): AffineExpr {
  if (factor === 1 && offset === 0) return index;
  return {
    offset: index.offset * factor + offset,
    terms: factor === 0 ? [] : index.terms.map(([s, c]) => [s, c * factor] as const),
  };
}

/** The sum of two expressions. */
export function add(a: AffineExpr, b: AffineExpr): AffineExpr {
  if (b.terms.length === 0 && b.offset === 0) return a;
  if (a.terms.length === 0 && a.offset === 0) return b;
  const terms: Term[] = [];
  let i = 0, j = 0;
  while (i < a.terms.length || j < b.terms.length) {
    const x = a.terms[i], y = b.terms[j];
    if (!y || (x && x[0] < y[0])) {
      terms.push(x!);
      i++;
    } else if (!x || y[0] < x[0]) {
      terms.push(y);
      j++;
    } else {
      if (x[1] + y[1] !== 0) terms.push([x[0], x[1] + y[1]]);
      i++;
      j++;
    }
  }
  return { offset: a.offset + b.offset, terms };
}

/** `sum(coords[k] * strides[k])`: the element that the coordinates address. */
export function linearize(coords: readonly AffineExpr[], strides: readonly number[]): AffineExpr {
  let index = zero;
  for (let k = 0; k < coords.length; k++) index = add(index, scale(coords[k]!, strides[k]!));
  return index;
}

/** The coefficient of a symbol, 0 where the expression does not depend on it. */
export function coefficient(index: AffineExpr, id: number): number {
  for (const [s, c] of index.terms) if (s === id) return c;
  return 0;
}

/** The part of an expression that changes with some symbols. */
export const partOf = ({ terms }: AffineExpr, symbols: readonly number[]): AffineExpr => ({
  offset: 0,
  terms: terms.filter(([s]) => symbols.includes(s)),
});

/** An expression without the part that changes with some symbols. */
export const withoutPart = (
  { offset, terms }: AffineExpr,
  symbols: readonly number[],
): AffineExpr => ({ offset, terms: terms.filter(([s]) => !symbols.includes(s)) });

/** A text that is the same for equal expressions. */
export function affineKey(index: AffineExpr): string {
  let key = `${index.offset}`;
  for (const [s, c] of index.terms) key += `+${c}i${s}`;
  return key;
}

/** The smallest and the largest value of an expression, given the size of each symbol. */
export function rangeOf(index: AffineExpr, sizes: readonly number[]): [number, number] {
  let low = index.offset, high = index.offset;
  for (const [s, c] of index.terms) {
    const reach = c * (sizes[s]! - 1);
    if (reach > 0) high += reach;
    else low += reach;
  }
  return [low, high];
}

/** A loop index must be split in two before an index can be divided: `size = (size/factor, factor)`. */
export interface SymbolSplit {
  readonly symbol: number;
  readonly factor: number;
}

/**
 * Divides an index by the sizes of an input's axes (a reshape read backwards): the coordinates on
 * each axis, or the split of a loop index that would make it possible, or null when nothing does.
 */
export function delinearize(
  index: AffineExpr,
  shape: readonly number[],
  sizes: readonly number[],
): AffineExpr[] | SymbolSplit | null {
  const coords = new Array<AffineExpr>(shape.length).fill(zero);
  let rest = index;
  for (let axis = shape.length - 1; axis >= 0; axis--) {
    const n = shape[axis]!;
    if (n === 1) continue;
    if (shape.slice(0, axis).every((m) => m === 1)) {
      coords[axis] = rest;
      break;
    }
    const divided = divide(rest, n, sizes);
    if (!divided || "factor" in divided) return divided;
    coords[axis] = divided.remainder;
    rest = divided.quotient;
  }
  return coords;
}

function divide(
  index: AffineExpr,
  n: number,
  sizes: readonly number[],
): { quotient: AffineExpr; remainder: AffineExpr } | SymbolSplit | null {
  const whole = Math.floor(index.offset / n), offset = index.offset - whole * n;
  // Coefficients just below a multiple may count back from that one: of 3, `5 * i` is `2 * 3 * i - i`.
  for (const times of [(c: number) => c % n === 0 ? c / n : 0, (c: number) => Math.round(c / n)]) {
    const part = (of: (c: number) => number): Term[] =>
      index.terms.map(([s, c]): Term => [s, of(c)]).filter(([, c]) => c !== 0);
    const remainder = { offset, terms: part((c) => c - times(c) * n) };
    const [min, max] = rangeOf(remainder, sizes);
    if (min >= 0 && max < n) return { quotient: { offset: whole, terms: part(times) }, remainder };
  }
  for (const [s, c] of index.terms) {
    if (c % n === 0) continue;
    const factor = n / c;
    const size = sizes[s]!;
    if (c > 0 && Number.isInteger(factor) && size > factor && size % factor === 0) {
      return { symbol: s, factor };
    }
  }
  return null;
}

/**
 * True when an index visits each of `count` elements exactly once as its symbols run: what a kernel
 * needs to know before it may store a value.
 */
export function isBijection(
  index: AffineExpr,
  symbols: readonly number[],
  sizes: readonly number[],
  count: number,
): boolean {
  if (index.offset !== 0) return false;
  const live = symbols.filter((s) => sizes[s]! > 1);
  // Also a symbol with one value must be known where the value is stored.
  if (index.terms.some(([s]) => !symbols.includes(s))) return false;
  const ordered = live.map((s) => [coefficient(index, s), sizes[s]!] as const)
    .sort((a, b) => a[0] - b[0]);
  let expected = 1;
  for (const [c, size] of ordered) {
    if (c !== expected) return false;
    expected *= size;
  }
  return expected === count;
}
