/**
 * A WebAssembly module with one function, put together here byte by byte: the sums of a tile of 4 by
 * 8 floats, kept in SIMD registers. Opcodes are those of the WebAssembly core specification, 2.0.
 */

/** Rows of a tile. */
export const TILE_ROWS = 4;
/** Columns of a tile: two vectors. */
export const TILE_COLUMNS = 8;

/** What the module exports. */
export interface TileModule {
  readonly memory: WebAssembly.Memory;
  /**
   * Adds `a b` to the tile at `c`, whose rows are `pitch` bytes apart. `a` is k times 4 floats, `b` k
   * times 8; all places are in bytes, k is at least 1.
   */
  readonly tile: (a: number, b: number, c: number, k: number, pitch: number) => void;
}

const I32 = 0x7f, V128 = 0x7b, BLOCK_EMPTY = 0x40;
const A = 0, B = 1, C = 2, K = 3, PITCH = 4;
/** Locals behind the parameters: the row's address, two vectors of b, one of a, the sums. */
const ROW = 5, B0 = 6, B1 = 7, X = 8, SUMS = 9;

/** An unsigned number in LEB128. */
function leb(value: number): number[] {
  const bytes: number[] = [];
  for (; value > 0x7f; value >>>= 7) bytes.push((value & 0x7f) | 0x80);
  return [...bytes, value];
}

const get = (local: number): number[] => [0x20, local];
const set = (local: number): number[] => [0x21, local];
const tee = (local: number): number[] => [0x22, local];
/** Constants below 64 are one byte of signed LEB128. */
const constant = (value: number): number[] => [0x41, value];
const add = [0x6a], subtract = [0x6b], branchIf = [0x0d, 0], end = [0x0b];
const loop = [0x03, BLOCK_EMPTY];
const simd = (opcode: number, ...immediates: number[]): number[] => [
  0xfd,
  ...leb(opcode),
  ...immediates,
];
/** Memory accesses: aligned to 4 bytes (2 to the power 2). */
const load = (offset: number): number[] => simd(0, 2, offset);
const loadSplat = (offset: number): number[] => simd(9, 2, offset);
const store = (offset: number): number[] => simd(11, 2, offset);
const addVectors = simd(228), multiplyVectors = simd(230);

const rows = Array.from({ length: TILE_ROWS }, (_, r) => r);
const sum = (row: number, half: number): number => SUMS + 2 * row + half;

/** Visits the tile in memory row by row. */
function eachRow(access: (row: number) => number[]): number[] {
  const next = [...get(ROW), ...get(PITCH), ...add, ...set(ROW)];
  return [...get(C), ...set(ROW), ...rows.flatMap((r) => [...access(r), ...next])];
}

function multiplyRow(row: number): number[] {
  const half = (h: number): number[] => [
    ...get(sum(row, h)),
    ...get(X),
    ...get(h === 0 ? B0 : B1),
    ...multiplyVectors,
    ...addVectors,
    ...set(sum(row, h)),
  ];
  return [...get(A), ...loadSplat(4 * row), ...set(X), ...half(0), ...half(1)];
}

function body(): number[] {
  return [
    ...eachRow((r) => [0, 1].flatMap((h) => [...get(ROW), ...load(16 * h), ...set(sum(r, h))])),
    ...loop,
    ...[...get(B), ...load(0), ...set(B0), ...get(B), ...load(16), ...set(B1)],
    ...rows.flatMap(multiplyRow),
    ...[...get(A), ...constant(4 * TILE_ROWS), ...add, ...set(A)],
    ...[...get(B), ...constant(4 * TILE_COLUMNS), ...add, ...set(B)],
    ...[...get(K), ...constant(1), ...subtract, ...tee(K), ...branchIf],
    ...end,
    ...eachRow((r) => [0, 1].flatMap((h) => [...get(ROW), ...get(sum(r, h)), ...store(16 * h)])),
    ...end,
  ];
}

function section(id: number, content: readonly number[]): number[] {
  return [id, ...leb(content.length), ...content];
}

function name(text: string): number[] {
  return [text.length, ...new TextEncoder().encode(text)];
}

function moduleBytes(): Uint8Array<ArrayBuffer> {
  // One group of i32 locals, one of vectors.
  const locals = [2, 1, I32, 3 + 2 * TILE_ROWS, V128];
  const code = [...locals, ...body()];
  return Uint8Array.from([
    ...[0x00, 0x61, 0x73, 0x6d, 1, 0, 0, 0],
    ...section(1, [1, 0x60, 5, I32, I32, I32, I32, I32, 0]),
    ...section(3, [1, 0]),
    ...section(5, [1, 0, 1]),
    ...section(7, [2, ...name("memory"), 2, 0, ...name("tile"), 0, 0]),
    ...section(10, [1, ...leb(code.length), ...code]),
  ]);
}

/** Compiles the module; it takes well under a millisecond. */
export function makeTileModule(): TileModule {
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(moduleBytes()));
  return exports as unknown as TileModule;
}
