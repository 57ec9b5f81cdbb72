/**
 * JavaScript for contractions: tiles of 4x4 sums in local variables, so that an operand is loaded
 * once for four products.
 */
import { type AffineExpr, coefficient } from "../../kernel/affine.ts";
import { neededBy } from "../../kernel/analysis.ts";
import { isFloat } from "../../graph/dtype.ts";
import type { Dialect, Emitter } from "../../codegen/emit.ts";
import type { Contraction, Load } from "../../kernel/kernel.ts";
import { openLoop } from "../../codegen/loops.ts";
import { literal } from "./dialect.ts";

const TILE = 4;

/** Emits the whole kernel: loops, sums, and what follows the contraction. */
export function emitContraction(emitter: Emitter, dialect: Dialect): void {
  const c = emitter.kernel.contraction!;
  if (isFloat(c.dtype)) emitTiles(emitter, dialect, c);
  else emitElements(emitter, dialect, c);
}

function emitElements(emitter: Emitter, dialect: Dialect, c: Contraction): void {
  const { outer } = emitter.kernel;
  for (const s of outer) openLoop(emitter, dialect, s);
  emitter.line(`let acc = ${literal(0, c.dtype)};`);
  for (const s of c.k) openLoop(emitter, dialect, s);
  const [a, b] = [c.a, c.b].map((l) => emitter.load(l, emitter.affine(l.index)));
  const product = dialect.primitive("mul", [a!, b!], c.dtype, c.dtype);
  emitter.line(`acc = ${dialect.primitive("add", ["acc", product], c.dtype, c.dtype)};`);
  for (const _ of c.k) emitter.close();
  emitEpilogue(emitter);
  for (const _ of outer) emitter.close();
}

/** One side of a tile: a loop index in steps of four, or none at all. */
interface TiledAxis {
  readonly symbol: number | undefined;
  readonly places: readonly number[];
}

function sideOf(symbols: readonly number[]): TiledAxis {
  const symbol = symbols[symbols.length - 1];
  return { symbol, places: Array.from({ length: symbol === undefined ? 1 : TILE }, (_, k) => k) };
}

function emitTiles(emitter: Emitter, dialect: Dialect, c: Contraction): void {
  const rows = sideOf(c.m), columns = sideOf(c.n);
  const tiled = [rows.symbol, columns.symbol];
  const others = emitter.kernel.outer.filter((s) => !tiled.includes(s));
  emitter.line(`const tile = new Float64Array(${rows.places.length * columns.places.length});`);
  for (const s of others) openLoop(emitter, dialect, s);
  openTiles(emitter, rows, "m");
  declarePlaces(emitter, c.a, c.k, rows, "x");
  openTiles(emitter, columns, "n");
  declarePlaces(emitter, c.b, c.k, columns, "y");
  emitSums(emitter, dialect, c, rows, columns);
  storeTile(emitter, rows, columns);
  for (const side of [columns, rows]) if (side.symbol !== undefined) emitter.close();
  for (const _ of others) emitter.close();
}

function openTiles(emitter: Emitter, side: TiledAxis, name: string): void {
  if (side.symbol === undefined) return;
  const size = emitter.size(side.symbol);
  emitter.open(`for (let ${name} = 0; ${name} < ${size}; ${name} += ${TILE}) {`);
  // Past the edge the last row is computed again, and not stored.
  for (const k of side.places) {
    emitter.line(`const ${name}${k} = Math.min(${name} + ${k}, ${size} - 1);`);
  }
}

/** Declares the start of each operand row, without the summed indices. */
function declarePlaces(
  emitter: Emitter,
  load: Load,
  summed: readonly number[],
  side: TiledAxis,
  name: "x" | "y",
): void {
  const { symbol } = side;
  const isLeft = name === "x";
  const base = emitter.affine(without(load.index, [...summed, symbol]));
  const step = symbol === undefined ? 0 : coefficient(load.index, symbol);
  const factor = step === 0 ? "" : emitter.index(step);
  for (const k of side.places) {
    const moved = step === 0 ? "" : ` + ${isLeft ? "m" : "n"}${k} * ${factor}`;
    emitter.line(`const ${name}${k}at = ${base}${moved};`);
  }
}

function without(index: AffineExpr, symbols: readonly (number | undefined)[]): AffineExpr {
  return { ...index, terms: index.terms.filter(([s]) => !symbols.includes(s)) };
}

/** The summed part of an operand's index alone. */
function summedPart(index: AffineExpr, k: readonly number[]): AffineExpr {
  return { offset: 0, terms: index.terms.filter(([s]) => k.includes(s)) };
}

function emitSums(
  emitter: Emitter,
  dialect: Dialect,
  c: Contraction,
  rows: TiledAxis,
  columns: TiledAxis,
): void {
  const sums = rows.places.flatMap((r) => columns.places.map((k) => `s${r}_${k}`));
  emitter.line(`let ${sums.map((name) => `${name} = 0`).join(", ")};`);
  for (const s of c.k) openLoop(emitter, dialect, s);
  for (const [load, side, name] of [[c.a, rows, "x"], [c.b, columns, "y"]] as const) {
    const part = emitter.affine(summedPart(load.index, c.k));
    for (const k of side.places) {
      emitter.line(`const ${name}${k} = ${emitter.load(load, `${name}${k}at + ${part}`)};`);
    }
  }
  for (const r of rows.places) {
    for (const k of columns.places) emitter.line(`s${r}_${k} += x${r} * y${k};`);
  }
  for (const _ of c.k) emitter.close();
  sums.forEach((name, place) => emitter.line(`tile[${place}] = ${name};`));
}

/** The epilogue over the part of a tile that lies within the result. */
function storeTile(emitter: Emitter, rows: TiledAxis, columns: TiledAxis): void {
  openPlaces(emitter, rows, "m", "r");
  openPlaces(emitter, columns, "n", "c");
  const row = rows.symbol === undefined ? "0" : `r * ${columns.places.length}`;
  emitter.line(`const acc = tile[${row} + ${columns.symbol === undefined ? "0" : "c"}];`);
  emitEpilogue(emitter);
  for (const side of [columns, rows]) if (side.symbol !== undefined) emitter.close();
}

function openPlaces(emitter: Emitter, side: TiledAxis, name: string, place: string): void {
  if (side.symbol === undefined) return;
  const end = `Math.min(${TILE}, ${emitter.size(side.symbol)} - ${name})`;
  emitter.open(`for (let ${place} = 0, e${place} = ${end}; ${place} < e${place}; ++${place}) {`);
  emitter.line(`const i${side.symbol} = ${name} + ${place};`);
}

function emitEpilogue(emitter: Emitter): void {
  const { outputs } = emitter.kernel;
  emitter.declare(neededBy(emitter.kernel, outputs.map((o) => o.expr)));
  outputs.forEach((_, o) => emitter.store(o));
}
