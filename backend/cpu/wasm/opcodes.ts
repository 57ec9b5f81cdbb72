/**
 * Opcodes of the WebAssembly core specification 3.0, with SIMD and relaxed SIMD: those that kernels
 * are made of.
 */

/** Opcodes of control, variables and constants. */
export const core = {
  block: 0x02,
  loop: 0x03,
  if: 0x04,
  else: 0x05,
  end: 0x0b,
  branch: 0x0c,
  branchIf: 0x0d,
  select: 0x1b,
  get: 0x20,
  set: 0x21,
  constant: 0x41,
  /** The opcodes of whole ranges of memory follow it. */
  bulk: 0xfc,
  /** The opcodes of vectors follow it. */
  vector: 0xfd,
} as const;

/** Opcodes of whole ranges of memory. */
export const bulk = { copy: 10 } as const;

/** Opcodes of 32-bit numbers. */
export const i32 = {
  load: 0x28,
  loadByte: 0x2d,
  loadShort: 0x2f,
  store: 0x36,
  eqz: 0x45,
  eq: 0x46,
  ne: 0x47,
  ltS: 0x48,
  ltU: 0x49,
  gtS: 0x4a,
  leS: 0x4c,
  geS: 0x4e,
  add: 0x6a,
  sub: 0x6b,
  mul: 0x6c,
  divS: 0x6d,
  divU: 0x6e,
  remS: 0x6f,
  remU: 0x70,
  and: 0x71,
  or: 0x72,
  xor: 0x73,
  shl: 0x74,
  shrS: 0x75,
  shrU: 0x76,
  rotl: 0x77,
} as const;

/** Opcodes of vectors in memory, and of all their bits. */
export const v128 = {
  load: 0,
  /** Of eight bytes, as numbers of 16 bits. */
  loadBytesS: 1,
  loadBytesU: 2,
  loadSplat: 9,
  load64Splat: 10,
  store: 11,
  constant: 12,
  shuffle: 13,
  swizzle: 14,
  relaxedSwizzle: 256,
  not: 77,
  and: 78,
  or: 80,
  xor: 81,
  bitselect: 82,
  anyTrue: 83,
  load8Lane: 84,
  load16Lane: 85,
  load32Lane: 86,
  load64Lane: 87,
  store8Lane: 88,
  store16Lane: 89,
  store32Lane: 90,
  store64Lane: 91,
  load32Zero: 92,
  load64Zero: 93,
} as const;

/** Opcodes of eight 16-bit lanes and sixteen bytes. */
export const narrow = {
  subBytes: 113,
  shortsToBytes: 102,
  intsToSigned: 133,
  intsToShorts: 134,
  signedToShorts: 135,
  lastSignedToShorts: 136,
  bytesToShorts: 137,
  lastBytesToShorts: 138,
  shortsToInts: 169,
} as const;

/** Opcodes of eight 16-bit lanes. */
export const i16x8 = {
  splat: 16,
  eq: 45,
  shl: 139,
  shrU: 141,
  add: 142,
} as const;

/** Opcodes of four 32-bit lanes. */
export const i32x4 = {
  splat: 17,
  extract: 27,
  eq: 55,
  ne: 56,
  ltS: 57,
  ltU: 58,
  gtS: 59,
  leS: 61,
  geS: 63,
  abs: 160,
  neg: 161,
  shl: 171,
  shrS: 172,
  shrU: 173,
  add: 174,
  sub: 177,
  mul: 181,
  /** Of eight 16-bit lanes with a sign: products of neighbours are added. */
  dot: 186,
  minS: 182,
  maxS: 184,
  truncate: 248,
} as const;

/** Opcodes of four floats. */
export const f32x4 = {
  eq: 65,
  ne: 66,
  lt: 67,
  gt: 68,
  le: 69,
  ge: 70,
  demote: 94,
  ceil: 103,
  floor: 104,
  trunc: 105,
  nearest: 106,
  abs: 224,
  neg: 225,
  sqrt: 227,
  add: 228,
  sub: 229,
  mul: 230,
  div: 231,
  min: 232,
  max: 233,
  pmin: 234,
  pmax: 235,
  convert: 250,
  relaxedMadd: 261,
  relaxedNmadd: 262,
} as const;

/** Opcodes of two 64-bit lanes; products are those of 32-bit lanes without a sign. */
export const i64x2 = {
  abs: 192,
  neg: 193,
  extendLow: 199,
  extendHigh: 200,
  extendLowU: 201,
  extendHighU: 202,
  shl: 203,
  shrU: 205,
  add: 206,
  sub: 209,
  mul: 213,
  eq: 214,
  ne: 215,
  lt: 216,
  gt: 217,
  le: 218,
  ge: 219,
  mulLow: 222,
  mulHigh: 223,
} as const;

/** Opcodes of two doubles. */
export const f64x2 = {
  eq: 71,
  ne: 72,
  lt: 73,
  gt: 74,
  le: 75,
  ge: 76,
  promote: 95,
  ceil: 116,
  floor: 117,
  trunc: 122,
  nearest: 148,
  abs: 236,
  neg: 237,
  sqrt: 239,
  add: 240,
  sub: 241,
  mul: 242,
  div: 243,
  min: 244,
  max: 245,
  pmin: 246,
  pmax: 247,
  /** To whole numbers of 32 bits, held at their bounds, in the lower half of the vector. */
  truncate: 252,
  convertS: 254,
  convertU: 255,
  relaxedMadd: 263,
  relaxedNmadd: 264,
} as const;
