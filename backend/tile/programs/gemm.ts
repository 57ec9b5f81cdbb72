/**
 * Products of work-groups: each has a tile of the result, whose operands go through local memory, and each of
 * its work-items a piece in registers. Operands of any element type, strided, masked or batched.
 */
import { dtypes } from "../../graph/dtype.ts";
import type { Contraction, LoopKernel } from "../../kernel/kernel.ts";
import { held, kindOf, primitive, value } from "../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  mod,
  mul,
  type Place,
  type Whole,
  withExpressions,
} from "../language/expression.ts";
import type { TileKernel } from "../language/statements.ts";
import { fma } from "../language/values.ts";
import type { Program } from "../program.ts";
import { itemUnit } from "../units.ts";
import { GemmOperand } from "./gemm_operand.ts";
import { KernelValues, type NameOf } from "./kernel_values.ts";
import { ProductTile, type TileSize } from "./product_tile.ts";

/** The tile of a work-group (bm x bn, bk terms at a time), and a work-item's piece of it (tm x tn). */
export interface GemmTile extends TileSize {
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
    return new GemmWriter(new KernelValues(kernel, unit, nameOf, contracts), c, tile).write();
  });
}

class GemmWriter {
  readonly #p: Program;
  readonly #c: Contraction;
  readonly #size: GemmTile;
  readonly #tile: ProductTile;
  readonly #sums: Place;

  constructor(values: KernelValues, c: Contraction, size: GemmTile) {
    this.#p = values.p;
    this.#c = c;
    this.#size = size;
    this.#tile = new ProductTile(values, c, size);
    this.#sums = values.p.array("private", size.tm * size.tn, kindOf(c.dtype));
  }

  write(): TileKernel {
    const p = this.#p, { tm, tn } = this.#size;
    p.loop(int(tm * tn), (at) => p.store(this.#sums, at, value(0, this.#c.dtype)), Infinity);
    this.#multiply();
    this.#store();
    return p.finish("gemm", this.#tile.groups);
  }

  /** Adds up the products: the next tiles are on their way while these are multiplied. */
  #multiply(): void {
    const p = this.#p, { bk } = this.#size;
    const [a, b] = this.#tile.operands().map((parts) => new GemmOperand(parts)) as [
      GemmOperand,
      GemmOperand,
    ];
    const operands = [a, b];
    for (const operand of operands) operand.prepare(int(0));
    for (const operand of operands) operand.fetch(int(0));
    p.loop(this.#tile.steps, (turn) => {
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
    const p = this.#p, { dtype } = this.#c, { tm, tn } = this.#size;
    const read = (operand: GemmOperand, count: number, place: (at: Whole) => E): E[] =>
      Array.from({ length: count }, (_, k) => p.let(operand.element(term, place(k))));
    const x = read(a, tm, (at) => this.#row(at)), y = read(b, tn, (at) => this.#column(at));
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

  /** Rows and columns of a work-item's piece, in the tile. */
  #row(at: Whole): E {
    return pieceAt(this.#p.down, this.#p.unit.down, this.#size.tm, at);
  }

  #column(at: Whole): E {
    return pieceAt(this.#p.across, this.#p.unit.across, this.#size.tn, at);
  }

  /** Stores what follows from each of the work-item's sums that exist. */
  #store(): void {
    const p = this.#p, tile = this.#tile, { tm, tn } = this.#size;
    p.loop(int(tm), (r) => {
      const row = p.let(add(tile.rows.origin, this.#row(r)));
      tile.within(tile.rows, row, (rows) =>
        p.loop(int(tn), (q) => {
          const column = p.let(add(tile.columns.origin, this.#column(q)));
          tile.within(tile.columns, column, (columns) => {
            const sum = held(this.#sums, add(mul(r, tn), q), kindOf(this.#c.dtype));
            tile.store(() => p.let(sum), rows, columns);
          });
        }, Infinity));
    }, Infinity);
  }
}

/** Element `at` of a work-item's piece: runs of neighbours, so that they are read as vectors. */
function pieceAt(item: E, items: number, count: number, at: Whole): E {
  if (count <= RUN) return add(mul(item, count), at);
  return add(mul(div(at, RUN), items * RUN), mul(item, RUN), mod(at, RUN));
}
