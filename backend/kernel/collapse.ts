/** Kernels with fewer loops: those that every index walks as one become one. */
import type { AffineExpr } from "./affine.ts";
import type { Bound, Expr, Load, LoopKernel } from "./kernel.ts";

/**
 * Merges loops that every index walks as one, and drops loops of one iteration, so that most
 * kernels end with a single contiguous loop.
 */
export function collapse(kernel: LoopKernel): LoopKernel {
  const indices = allIndices(kernel);
  const drop = new Set([...kernel.outer, ...kernel.inner].filter((s) => kernel.sizes[s] === 1));
  const sizes = kernel.sizes.slice();
  const groups = kernel.contraction
    ? [kernel.contraction.batch, kernel.contraction.m, kernel.contraction.n, kernel.contraction.k]
    : [kernel.outer, kernel.inner];
  const result = groups.map((group) => {
    const kept: number[] = [];
    for (const s of group) {
      if (sizes[s] === 1) continue;
      const previous = kept[kept.length - 1];
      if (previous !== undefined && canMerge(indices, previous, s, sizes)) {
        kept.pop();
        drop.add(previous);
        sizes[s] = sizes[s]! * sizes[previous]!;
      }
      kept.push(s);
    }
    return kept;
  });
  if (drop.size === 0) return kernel;
  const strip = (index: AffineExpr): AffineExpr =>
    index.terms.some(([s]) => drop.has(s))
      ? { offset: index.offset, terms: index.terms.filter(([s]) => !drop.has(s)) }
      : index;
  const rewritten = mapIndices({ ...kernel, sizes }, strip);
  if (kernel.contraction) {
    const [batch, m, n, k] = result as [number[], number[], number[], number[]];
    return {
      ...rewritten,
      outer: [...batch, ...m, ...n],
      inner: k,
      contraction: { ...rewritten.contraction!, batch, m, n, k },
    };
  }
  return { ...rewritten, outer: result[0]!, inner: result[1]! };
}

/**
 * Numbers the symbols that are left after one another: loops over a matrix that became one loop are
 * those over a vector, and need no kernel of their own.
 */
export function compact(kernel: LoopKernel): LoopKernel {
  const used = new Set([
    ...kernel.outer,
    ...kernel.inner,
    ...kernel.indirect.map((d) => d.symbol),
  ]);
  if (used.size === kernel.sizes.length) return kernel;
  const places = new Map([...used].sort((a, b) => a - b).map((s, place) => [s, place]));
  const at = (s: number): number => places.get(s)!;
  const { contraction, ...rest } = mapIndices(kernel, ({ offset, terms }) => ({
    offset,
    terms: terms.map(([s, c]) => [at(s), c]),
  }));
  return {
    ...rest,
    sizes: [...places.keys()].map((s) => kernel.sizes[s]!),
    outer: kernel.outer.map(at),
    inner: kernel.inner.map(at),
    indirect: kernel.indirect.map((d) => ({ ...d, symbol: at(d.symbol) })),
    contraction: contraction && {
      ...contraction,
      batch: contraction.batch.map(at),
      m: contraction.m.map(at),
      n: contraction.n.map(at),
      k: contraction.k.map(at),
    },
  };
}

/** Symbols (a outside b) walk as one when every index steps a by `size(b)` times its step of b. */
function canMerge(
  indices: readonly AffineExpr[],
  a: number,
  b: number,
  sizes: readonly number[],
): boolean {
  for (const index of indices) {
    let ca = 0, cb = 0;
    for (const [s, c] of index.terms) {
      if (s === a) ca = c;
      else if (s === b) cb = c;
    }
    if (ca !== cb * sizes[b]!) return false;
  }
  return true;
}

/** Every index of a kernel, bounds among them. */
export function allIndices(kernel: LoopKernel): AffineExpr[] {
  const indices: AffineExpr[] = [];
  mapIndices(kernel, (index) => (indices.push(index), index));
  return indices;
}

/** The kernel with every index replaced. */
export function mapIndices(kernel: LoopKernel, map: (index: AffineExpr) => AffineExpr): LoopKernel {
  const bound = (g: Bound): Bound => ({ index: map(g.index), size: g.size });
  const load = (l: Load): Load => ({ ...l, index: map(l.index), bounds: l.bounds.map(bound) });
  return {
    ...kernel,
    loads: kernel.loads.map(load),
    exprs: kernel.exprs.map((e): Expr => {
      switch (e.op) {
        case "index":
        case "random":
          return { ...e, index: map(e.index) };
        case "inside":
          return { ...e, bounds: e.bounds.map(bound) };
        default:
          return e;
      }
    }),
    reductions: kernel.reductions.map((r) => ({ ...r, index: map(r.index) })),
    contraction: kernel.contraction &&
      { ...kernel.contraction, a: load(kernel.contraction.a), b: load(kernel.contraction.b) },
    outputs: kernel.outputs.map((o) => ({ ...o, index: map(o.index) })),
  };
}
