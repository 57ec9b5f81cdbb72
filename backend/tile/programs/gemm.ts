/**
 * Products of work-groups: each has a tile of the result, whose operands go through local memory, and each of
 * its work-items a piece in registers. Operands of any element type, strided, masked or batched.
 */
import { dtypes } from "../../graph/dtype.ts";
import { neededBy } from "../../kernel/analysis.ts";
import { type Contraction, extent, type LoopKernel } from "../../kernel/kernel.ts";
import { held, kindOf, primitive, value } from "../language/elements.ts";
import {
  add,
  div,
  divideBy,
  type E,
  int,
  mod,
  mul,
  type Place,
  type Whole,
  withExpressions,
} from "../language/expression.ts";
import type { TileKernel } from "../language/statements.ts";
import { fma, lt, truth } from "../language/values.ts";
import { Program } from "../program.ts";
import { itemUnit } from "../units.ts";
import { GemmOperand } from "./gemm_operand.ts";
import {
  type Indices,
  KernelValues,
  type NameOf,
  Scope,
  storeNeighbours,
} from "./kernel_values.ts";

/** The tile of a work-group (bm x bn, bk terms at a time), and a work-item's piece of it (tm x tn). */
export interface GemmTile {
  readonly bm: number;
  readonly bn: number;
  readonly bk: number;
  readonly tm: number;
  readonly tn: number;
}

/** Neighbours of a piece that are read together: pieces are in runs of so many, those of others between. */
const RUN = 4;

/**
 * The kernel of a product, with what follows it; outputs are buffers `o0`, ..., inputs `a0`, ...
 *
 * @param contracts As in {@linkcode KernelValues}.
 */
export function gemm(
  kernel: LoopKernel,
  c: Contraction,
  tile: GemmTile,
  nameOf: NameOf,
  contracts: boolean,
): TileKernel {
  return withExpressions(() => {
    const unit = itemUnit("local", tile.bn / tile.tn, tile.bm / tile.tm);
    const p = new Program(unit, (value) => nameOf({ kind: "index", value }));
    return new GemmWriter(new KernelValues(kernel, p, nameOf, contracts), c, tile).write();
  });
}

/** Rows or columns of the result: those of a group, and of a work-item. */
interface Axis {
  readonly symbols: readonly number[];
  readonly end: E;
  /** The first one of the group, and the work-item's number along it, of how many. */
  readonly origin: E;
  readonly item: E;
  readonly items: number;
  /** Those of a work-item. */
  readonly count: number;
  /** No tile ends behind the last one. */
  readonly isWhole: boolean;
}

class GemmWriter {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #c: Contraction;
  readonly #tile: GemmTile;
  readonly #groups: number;
  readonly #rows: Axis;
  readonly #columns: Axis;
  readonly #batch: Indices;
  readonly #sums: Place;

  constructor(values: KernelValues, c: Contraction, tile: GemmTile) {
    const { p, kernel } = values, { bm, bn, tm, tn } = tile, { across, down } = p.unit;
    this.#values = values;
    this.#p = p;
    this.#c = c;
    this.#tile = tile;
    const [m, n] = [extent(kernel, c.m), extent(kernel, c.n)];
    const [countM, countN] = [Math.ceil(m / bm), Math.ceil(n / bn)];
    this.#groups = countM * countN * extent(kernel, c.batch);
    const [above, column] = divideBy(p.group, p.size(countN));
    const [batch, row] = divideBy(above, p.size(countM));
    const axis = (
      symbols: readonly number[],
      [size, count, piece]: readonly [number, number, number],
      [tile, item, items]: readonly [E, E, number],
    ): Axis => {
      const origin = p.let(mul(tile, count)), end = p.size(size), isWhole = size % count === 0;
      return { symbols, end, origin, item, items, count: piece, isWhole };
    };
    this.#rows = axis(c.m, [m, bm, tm], [row, p.down, down]);
    this.#columns = axis(c.n, [n, bn, tn], [column, p.across, across]);
    this.#batch = values.decomposed(c.batch, p.let(batch), (s) => values.size(s));
    this.#sums = p.array("private", tm * tn, kindOf(c.dtype));
  }

  write(): TileKernel {
    const p = this.#p, { tm, tn } = this.#tile;
    p.loop(int(tm * tn), (at) => p.store(this.#sums, at, value(0, this.#c.dtype)), Infinity);
    this.#multiply();
    this.#store();
    return p.finish("gemm", this.#groups);
  }

  /** Adds up the products: the next tiles are on their way while these are multiplied. */
  #multiply(): void {
    const p = this.#p, { bm, bn, bk } = this.#tile, { kernel } = this.#values, c = this.#c;
    const length = extent(kernel, c.k), terms = { count: bk, end: p.size(length) };
    const [a, b] = ([[c.a, this.#rows, bm], [c.b, this.#columns, bn]] as const).map((
      [load, axis, extent],
    ) => new GemmOperand(this.#values, c, { ...axis, load, extent }, terms, this.#batch)) as [
      GemmOperand,
      GemmOperand,
    ];
    const operands = [a, b];
    for (const operand of operands) operand.prepare(int(0));
    for (const operand of operands) operand.fetch(int(0));
    p.loop(p.size(Math.ceil(length / bk)), (turn) => {
      const next = p.let(mul(add(turn, 1), bk));
      for (const operand of operands) {
        operand.put();
        operand.prepare(next);
      }
      for (const operand of operands) operand.fetch(next);
      p.loop(int(bk), (term) => this.#addProducts(term, a, b), Infinity);
    }, 1);
  }

  /** Adds the products of one term to the work-item's sums. */
  #addProducts(term: E, a: GemmOperand, b: GemmOperand): void {
    const p = this.#p, { dtype } = this.#c, { tm, tn } = this.#tile;
    const read = (operand: GemmOperand, axis: Axis, count: number): E[] =>
      Array.from({ length: count }, (_, k) => p.let(operand.element(term, pieceAt(axis, k))));
    const x = read(a, this.#rows, tm), y = read(b, this.#columns, tn);
    x.forEach((left, r) =>
      y.forEach((right, q) => {
        const at = int(r * tn + q), sum = held(this.#sums, at, kindOf(dtype));
        const next = dtypes[dtype].kind === "float"
          ? fma(left, right, sum)
          : primitive("add", [primitive("mul", [left, right], dtype), sum], dtype);
        p.store(this.#sums, at, next);
      })
    );
  }

  /** Stores what follows from each of the work-item's sums that exist. */
  #store(): void {
    const { kernel } = this.#values, { tn } = this.#tile, { exprs, outputs } = kernel;
    const sum = exprs.findIndex(({ op }) => op === "contracted");
    const needed = neededBy(kernel, outputs.map(({ expr }) => expr));
    this.#each(this.#rows, (r, rows) =>
      this.#each(this.#columns, (q, columns) => {
        const scope = new Scope(this.#values, new Map([...this.#batch, ...rows, ...columns]));
        const at = add(mul(r, tn), q);
        if (sum >= 0) scope.know(sum, this.#p.let(held(this.#sums, at, kindOf(this.#c.dtype))));
        scope.declare(needed);
        outputs.forEach((_, output) => storeNeighbours(this.#p, kernel, output, [scope]));
      }));
  }

  /** Walks the work-item's rows, or columns, that exist. */
  #each(axis: Axis, body: (at: E, indices: Indices) => void): void {
    const p = this.#p, isConvolution = this.#c.k.length > 1;
    const sizeOf = (s: number): E =>
      isConvolution ? int(this.#values.kernel.sizes[s]!) : this.#values.size(s);
    p.loop(int(axis.count), (at) => {
      const own = p.let(add(axis.origin, pieceAt(axis, at)));
      p.when(axis.isWhole ? truth(true) : lt(own, axis.end), () => {
        body(at, this.#values.decomposed(axis.symbols, own, sizeOf));
      });
    }, Infinity);
  }
}

/** An element of a work-item's piece in the tile: runs of neighbours, so that they are read as vectors. */
function pieceAt({ item, items, count }: Axis, at: Whole): E {
  if (count <= RUN) return add(mul(item, count), at);
  return add(mul(div(at, RUN), items * RUN), mul(item, RUN), mod(at, RUN));
}
