/**
 * Products on matrix units: a work-group computes a tile whose operands travel through several stages of
 * local memory, a warp a piece of it.
 *
 * Sums are float32. Products of float32 are made of TF32 products: three of the high and low parts, which keeps
 * float32's accuracy, or one where less is asked for. The sums go through local memory on their way out, so
 * that neighbours store neighbours.
 */
import { type AffineExpr, coefficient } from "../../kernel/affine.ts";
import { type Contraction, extent, type LoopKernel } from "../../kernel/kernel.ts";
import { element, held, primitive, value } from "../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  mod,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../language/expression.ts";
import type { Fragment, TileKernel } from "../language/statements.ts";
import { choose, fadd, float, fma, lt, select, truth, within } from "../language/values.ts";
import { type MatrixUnit, matrixUnits, type UnitOfProduct } from "../matrix_units.ts";
import type { Program } from "../program.ts";
import { itemUnit } from "../units.ts";
import { type Indices, KernelValues, type NameOf } from "./kernel_values.ts";
import { ProductTile, type TileSize } from "./product_tile.ts";
import { StagedOperand } from "./staged_operand.ts";

/**
 * The tile of a work-group, a warp's piece of it (wm x wn), and how many stages are in local memory: all but one
 * are on their way while one is multiplied.
 */
export interface MmaTile extends TileSize {
  readonly wm: number;
  readonly wn: number;
  readonly stages: number;
}

/** Terms that matrix units, which truncate, add up before their sum goes to one that rounds. */
const MAX_TRUNCATED_TERMS = 64;
/** Rows of tiles whose groups follow each other. */
const STRIP = 8;
/** Floats of a row of sums on its way out, more than it needs: rows begin in different banks. */
const SLAB_PADDING = 4;

/** Bytes of local memory that one stage of both operands takes. */
export function stageBytesOf({ bm, bn, bk }: TileSize, elementBytes: number): number {
  return (bm + bn) * bk * elementBytes;
}

/** In how many pieces a tile's sums leave through so many bytes of local memory; null: not at all. */
export function slabPieces(
  { bm, bn, wn }: MmaTile,
  { columns }: MatrixUnit,
  bytes: number,
): number | null {
  for (let pieces = 1; pieces <= wn / columns; pieces *= 2) {
    if (bm * (bn / pieces + SLAB_PADDING) * 4 <= bytes) return pieces;
  }
  return null;
}

/**
 * The kernel of a product, with what follows it; outputs are buffers `o0`, ..., inputs `a0`, ...
 *
 * @param contracts As in {@linkcode KernelValues}.
 */
export function matrixGemm(
  kernel: LoopKernel,
  c: Contraction,
  tile: MmaTile,
  unit: UnitOfProduct,
  nameOf: NameOf,
  contracts: boolean,
): TileKernel {
  return withExpressions(() => {
    const warps = tile.bm / tile.wm * (tile.bn / tile.wn);
    const items = itemUnit("shuffle", matrixUnits[unit.name].lanes, warps);
    const values = new KernelValues(kernel, items, nameOf, contracts);
    return new MatrixGemmWriter(values, c, tile, unit).write();
  });
}

class MatrixGemmWriter {
  readonly #values: KernelValues;
  readonly #p: Program;
  readonly #c: Contraction;
  readonly #size: MmaTile;
  readonly #product: UnitOfProduct;
  readonly #unit: MatrixUnit;
  readonly #tile: ProductTile;
  readonly #stageBytes: number;
  readonly #ring: Place;
  /** The first row and column of the warp's piece in the tile. */
  readonly #warp: { readonly row: E; readonly column: E };
  readonly #sums: Place;
  /** Sums of few terms, where units truncate. */
  readonly #few: Place | null;

  constructor(values: KernelValues, c: Contraction, size: MmaTile, product: UnitOfProduct) {
    const { p } = values, unit = matrixUnits[product.name];
    const warp = div(p.item, unit.lanes), warpsM = size.bm / size.wm;
    this.#values = values;
    this.#p = p;
    this.#c = c;
    this.#size = size;
    this.#product = product;
    this.#unit = unit;
    this.#stageBytes = stageBytesOf(size, this.#unit.bytes);
    this.#ring = p.ring(size.stages * this.#stageBytes);
    this.#tile = new ProductTile(values, c, size, STRIP);
    this.#warp = {
      row: p.let(mul(mod(warp, warpsM), size.wm)),
      column: p.let(mul(div(warp, warpsM), size.wn)),
    };
    const sums = (): Place => p.array("private", this.#registers, "float");
    this.#sums = sums();
    this.#few = product.products === 3 ? sums() : null;
  }

  /** Matrices of a warp's piece along its rows and columns, and its sums of a work-item. */
  get #high(): number {
    return this.#size.wm / this.#unit.rows;
  }

  get #wide(): number {
    return this.#size.wn / this.#unit.columns;
  }

  get #registers(): number {
    return this.#unit.sums * this.#high * this.#wide;
  }

  write(): TileKernel {
    for (const sums of [this.#sums, ...this.#few ? [this.#few] : []]) {
      this.#eachSum((at) => this.#p.store(sums, at, float(0)));
    }
    this.#multiply();
    this.#store();
    return this.#p.finish("matrix_gemm", this.#tile.groups);
  }

  #eachSum(body: (at: E) => void): void {
    this.#p.loop(int(this.#registers), body, Infinity);
  }

  /** Adds up the products: all stages but one are on their way while one is multiplied. */
  #multiply(): void {
    const p = this.#p, { bm, bk, stages } = this.#size, ahead = stages - 1;
    const [a, b] = this.#tile.operands().map((parts, n) =>
      new StagedOperand(parts, this.#unit, this.#ring, n * bm * bk * this.#unit.bytes)
    ) as [StagedOperand, StagedOperand];
    const operands = [a, b];
    p.loop(add(this.#tile.steps, ahead), (turn) => {
      const isMultiplied = lt(ahead - 1, turn), isCopied = lt(turn, this.#tile.steps);
      p.when(isMultiplied, () => p.emit({ s: "wait", left: stages - 2, place: this.#ring }));
      const into = p.let(mul(mod(turn, stages), this.#stageBytes));
      p.when(isCopied, () => operands.forEach((operand) => operand.copy(mul(turn, bk), into)));
      p.emit({ s: "commit" });
      p.when(isMultiplied, () => {
        const from = p.let(mul(mod(add(turn, 1), stages), this.#stageBytes));
        p.loop(int(bk / this.#unit.terms), (part) => this.#addProducts(part, from, a, b), Infinity);
        if (this.#few) this.#roundSums(sub(turn, ahead));
      });
      const held = operands.filter(({ isHeld }) => isHeld);
      if (held.length > 0) p.when(isCopied, () => held.forEach((operand) => operand.put(into)));
    }, 1);
    if (this.#few) this.#addFew();
    p.emit({ s: "wait", left: 0, place: this.#ring });
  }

  /** Adds the products of as many terms as the unit takes to the warp's sums. */
  #addProducts(part: E, from: E, a: StagedOperand, b: StagedOperand): void {
    const p = this.#p, [high, wide] = [this.#high, this.#wide], { products, name } = this.#product;
    const { left: { words: own }, right: { words: across }, sums: count } = this.#unit;
    const words = (count: number): Place => p.array("private", count, "word");
    const x = words(own * high), y = words(across * wide);
    a.loadRows(x, high, part, this.#warp.row, from);
    b.loadColumns(y, wide, part, this.#warp.column, from);
    const isThree = products === 3,
      rests = isThree ? [words(own * high), words(across * wide)] : [];
    if (this.#unit.bytes === 4) {
      [x, y].forEach((place, n) =>
        p.loop(int(n === 0 ? own * high : across * wide), (index) => {
          const rest = isThree ? { place: rests[n]!, index } : null;
          p.emit({ s: "round", at: { place, index }, rest });
        }, Infinity)
      );
    }
    const sums = this.#few ?? this.#sums;
    const multiply = (left: Place, right: Place): void =>
      p.loop(int(high), (i) =>
        p.loop(int(wide), (j) => {
          const at = (place: Place, index: E): Fragment => ({ place, index });
          p.emit({
            s: "multiply",
            unit: name,
            sums: at(sums, mul(add(mul(i, wide), j), count)),
            left: at(left, mul(i, own)),
            right: at(right, mul(j, across)),
          });
        }, Infinity), Infinity);
    if (isThree) {
      multiply(rests[0]!, y);
      multiply(x, rests[1]!);
    }
    multiply(x, y);
  }

  /** Adds the sums of few terms to those that are rounded, after so many stages. */
  #roundSums(step: E): void {
    const turns = Math.max(1, MAX_TRUNCATED_TERMS / this.#size.bk);
    this.#p.when(turns === 1 ? truth(true) : lt(mod(step, turns), 1), () => {
      this.#addFew();
      this.#eachSum((at) => this.#p.store(this.#few!, at, float(0)));
    });
  }

  #addFew(): void {
    this.#eachSum((at) => {
      const sum = fadd(held(this.#sums, at, "float"), held(this.#few!, at, "float"));
      this.#p.store(this.#sums, at, sum);
    });
  }

  /**
   * The sums go to local memory, as many columns of each warp at a time as fit, and the group stores them so
   * that neighbours walk along the axis on which results lie side by side.
   */
  #store(): void {
    const p = this.#p, { bn, wn, stages } = this.#size, wide = this.#wide;
    const { rows, columns, sums } = this.#unit;
    const pieces = slabPieces(this.#size, this.#unit, stages * this.#stageBytes)!,
      share = wn / pieces;
    const pitch = bn / pieces + SLAB_PADDING, slab: Place = { ...this.#ring, element: "float32" };
    p.loop(int(pieces), (piece) => {
      const perPiece = wide / pieces;
      p.loop(int(wide), (j) => {
        const own = sub(j, mul(piece, perPiece));
        const column = add(div(this.#warp.column, pieces), mul(mod(j, perPiece), columns));
        p.when(
          pieces === 1 ? truth(true) : within(own, int(perPiece)),
          () =>
            p.loop(int(this.#high), (i) => {
              const row = add(this.#warp.row, mul(i, rows));
              this.#put(slab, pitch, row, column, mul(add(mul(i, wide), j), sums));
            }, Infinity),
        );
      }, Infinity);
      this.#storeSlab(slab, pitch, share, piece);
    }, 1);
  }

  /** Writes a work-item's sums of a matrix to the slab. */
  #put(slab: Place, pitch: number, row: E, column: E, at: E): void {
    const p = this.#p, lane = mod(p.item, this.#unit.lanes);
    for (let register = 0; register < this.#unit.sums; register++) {
      const [r, q] = this.#unit.sum(lane, register);
      p.store(
        slab,
        add(mul(add(row, r), pitch), column, q),
        held(this.#sums, add(at, register), "float"),
      );
    }
  }

  #storeSlab(slab: Place, pitch: number, share: number, piece: E): void {
    const p = this.#p, { bm, wn } = this.#size, width = pitch - SLAB_PADDING, tile = this.#tile;
    const { outputs } = this.#values.kernel, { m, n } = this.#c;
    const isTransposed = outputs.length > 0 &&
      outputs.every(({ index }) => isAlong(index, m.at(-1)!) && !isAlong(index, n.at(-1)!));
    p.loop(int(bm * width / p.items), (turn) => {
      const own = add(mul(turn, p.items), p.item);
      const [r, q] = isTransposed
        ? [mod(own, bm), div(own, bm)]
        : [div(own, width), mod(own, width)];
      const row = p.let(add(tile.rows.origin, r));
      const inTile = add(mul(div(q, share), wn), mul(piece, share), mod(q, share));
      const column = p.let(add(tile.columns.origin, inTile));
      tile.within(
        tile.rows,
        row,
        (rows) =>
          tile.within(tile.columns, column, (columns) =>
            tile.store(
              () => this.#sumOf(held(slab, add(mul(r, pitch), q), "float"), rows, columns),
              rows,
              columns,
            )),
      );
    }, 4);
  }

  /**
   * A sum as it is used. Products of the parts of infinities give NaN, and numbers near the largest one round to
   * infinity: such results are computed again, by themselves.
   */
  #sumOf(sum: E, rows: Indices, columns: Indices): E {
    const p = this.#p, { k } = this.#c;
    if (this.#few === null) return p.let(sum);
    const values = this.#values, result = p.register(sum), zero = value(0, "float32");
    const difference = primitive("sub", [result, result], "float32");
    p.when(primitive("ne", [difference, zero], "float32", "bool"), () => {
      p.set(result, zero);
      p.loop(p.size(extent(values.kernel, k)), (term) => {
        const terms = this.#tile.decomposed(k, term);
        const at = new Map([...this.#tile.indices(rows, columns), ...terms]);
        const operand = (name: "a" | "b"): E => {
          const load = this.#c[name], inside = values.inside(load.bounds, at, `${name} alone`);
          const index = choose(inside, values.affine(load.index, at), 0);
          const found = element(values.input(load.input), index, load.dtype);
          return inside.op === "const" ? found : select(inside, found, zero);
        };
        p.set(result, fma(operand("a"), operand("b"), result));
      }, 1);
    });
    return result;
  }
}

const isAlong = (index: AffineExpr, symbol: number): boolean => coefficient(index, symbol) === 1;
