/**
 * Products of float32 matrices in WebAssembly. The matrices are cut into blocks that fit the caches;
 * a block is copied into the module's memory in the order in which its tiles read it.
 */
import type { Gemm, Matrix, Product } from "./gemm.ts";
import { makeTileModule, TILE_COLUMNS, TILE_ROWS, type TileModule } from "./wasm_tile.ts";

/** The largest block of the result, and of the sum: 5 MiB of memory in all. */
const BLOCK = 512, BLOCK_K = 1024;
const PAGE_BYTES = 65536;

let made: Gemm | null = null;

/** The WebAssembly engine, compiled when first asked for. */
export function wasmGemm(): Gemm {
  return made ??= new WasmGemm();
}

/** A part of a product: so many rows, columns and summed places from here on. */
interface Block {
  readonly row: number;
  readonly column: number;
  readonly at: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
}

class WasmGemm implements Gemm {
  readonly name = "WebAssembly SIMD";
  readonly types = new Set(["float32"] as const);
  // Smaller products cost more to copy than to compute in JavaScript.
  readonly least = 4096;
  readonly #module: TileModule = makeTileModule();
  #floats: Float32Array;

  constructor() {
    this.#floats = new Float32Array(this.#module.memory.buffer);
  }

  multiply(product: Product): void {
    const { m, n, k, c } = product;
    for (let column = 0; column < n; column += BLOCK) {
      for (let row = 0; row < m; row += BLOCK) {
        const size = { m: Math.min(BLOCK, m - row), n: Math.min(BLOCK, n - column) };
        const places = placesOf(size.m, size.n, Math.min(k, BLOCK_K));
        this.#reserve(places.end);
        this.#floats.fill(0, places.c, places.end);
        for (let at = 0; at < k; at += BLOCK_K) {
          this.#add(product, { row, column, at, ...size, k: Math.min(BLOCK_K, k - at) }, places);
        }
        this.#copyOut(c, row, column, size, places);
      }
    }
  }

  #reserve(floats: number): void {
    const { memory } = this.#module;
    const missing = 4 * floats - memory.buffer.byteLength;
    if (missing <= 0) return;
    memory.grow(Math.ceil(missing / PAGE_BYTES));
    this.#floats = new Float32Array(memory.buffer);
  }

  #add({ a, b }: Product, { row, column, at, m, n, k }: Block, places: Places): void {
    const [aRow, aColumn] = stepsOf(a), [bRow, bColumn] = stepsOf(b);
    const floats = this.#floats;
    const left = a.data as Float32Array, right = b.data as Float32Array;
    const from = a.offset + row * aRow + at * aColumn;
    const under = b.offset + at * bRow + column * bColumn;
    pack(floats, places.a, left, from, aRow, aColumn, m, k, TILE_ROWS);
    pack(floats, places.b, right, under, bColumn, bRow, n, k, TILE_COLUMNS);
    const { tile } = this.#module;
    for (let j = 0; j < n; j += TILE_COLUMNS) {
      for (let i = 0; i < m; i += TILE_ROWS) {
        const into = places.c + i * places.pitch + j;
        tile(4 * (places.a + i * k), 4 * (places.b + j * k), 4 * into, k, 4 * places.pitch);
      }
    }
  }

  #copyOut(
    c: Matrix,
    row: number,
    column: number,
    { m, n }: { m: number; n: number },
    places: Places,
  ): void {
    const result = c.data as Float32Array;
    for (let i = 0; i < m; i++) {
      const from = places.c + i * places.pitch;
      result.set(this.#floats.subarray(from, from + n), c.offset + (row + i) * c.leading + column);
    }
  }
}

/** Where the blocks lie in the module's memory, in floats. */
interface Places {
  readonly a: number;
  readonly b: number;
  readonly c: number;
  readonly end: number;
  /** From one row of the result to the next. */
  readonly pitch: number;
}

function placesOf(m: number, n: number, k: number): Places {
  const rows = roundUp(m, TILE_ROWS), pitch = roundUp(n, TILE_COLUMNS);
  const b = rows * k, c = b + pitch * k;
  return { a: 0, b, c, end: c + rows * pitch, pitch };
}

function roundUp(n: number, multiple: number): number {
  return Math.ceil(n / multiple) * multiple;
}

/** Elements from one row to the next, and from one column to the next. */
function stepsOf({ isTransposed, leading }: Matrix): [number, number] {
  return isTransposed ? [1, leading] : [leading, 1];
}

/** Copies `count` lines of `k` elements as panels of `width` lines side by side; the rest is 0. */
function pack(
  into: Float32Array,
  place: number,
  from: Float32Array,
  start: number,
  lineStep: number,
  step: number,
  count: number,
  k: number,
  width: number,
): void {
  for (let line = 0; line < roundUp(count, width); line++) {
    let to = place + (line - line % width) * k + line % width;
    if (line >= count) {
      for (let l = 0; l < k; l++, to += width) into[to] = 0;
      continue;
    }
    let at = start + line * lineStep;
    for (let l = 0; l < k; l++, to += width, at += step) into[to] = from[at]!;
  }
}
