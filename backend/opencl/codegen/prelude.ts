/**
 * OpenCL C helper functions that generated kernels call; a program gets those that it names.
 *
 * It is long because helpers are one table, whose order says which calls which.
 */
import { declarationsOf } from "./builtins.ts";
import {
  between,
  blocks,
  direct,
  type Helper,
  OUT_OF_LINE,
  packRow,
  part,
  reload,
} from "./lane_access.ts";
import { decodeHelpers } from "./math/decoding.ts";
import { vectorMath } from "./math/vector_math.ts";
import { matrixHelpers } from "./units/matrix_helpers.ts";
import { mmaHelpers } from "./units/mma_helpers.ts";
import { warpHelpers } from "./units/warp_helpers.ts";
import { warpgroupHelpers } from "./units/warpgroup_helpers.ts";

/** A vector of 32 numbers of 16 bits. */
const SHORT32 = `#ifndef SHORT32
#define SHORT32
#if defined(CLANG_BUILTINS) && defined(__AVX512BW__)
#define WIDE_SHORTS
typedef short short32 __attribute__((ext_vector_type(32)));
#else
typedef struct { short16 lo, hi; } short32;
#endif
#endif`;

const integer = (T: string): Record<string, string> => ({
  // A zero divisor gives 0: an integer trap would end the process on CPU devices.
  [`safe_div_${T}`]:
    `inline ${T} safe_div_${T}(${T} a, ${T} b) { return b == 0 ? 0 : b == (${T})-1 ? (${T})(0 - a) : (${T})(a / b); }`,
  [`safe_floordiv_${T}`]:
    `inline ${T} safe_floordiv_${T}(${T} a, ${T} b) { if (b == 0) return 0; if (b == (${T})-1) return (${T})(0 - a); ${T} q = a / b; return (${T})(q - ((a % b != 0) && ((a < 0) != (b < 0)))); }`,
  [`safe_mod_${T}`]:
    `inline ${T} safe_mod_${T}(${T} a, ${T} b) { if (b == 0 || b == (${T})-1) return 0; ${T} r = a % b; return (${T})(r != 0 && ((r < 0) != (b < 0)) ? r + b : r); }`,
  [`int_pow_${T}`]:
    `inline ${T} int_pow_${T}(${T} a, ${T} b) { if (b < 0) return a == 1 ? 1 : a == (${T})-1 ? ((b & 1) ? (${T})-1 : 1) : 0; ${T} r = 1; while (b > 0) { if (b & 1) r *= a; a *= a; b >>= 1; } return r; }`,
});

const floating = (T: string): Record<string, string> => ({
  [`nan_max_${T}`]:
    `inline ${T} nan_max_${T}(${T} a, ${T} b) { return ((a > b) | (a != a)) ? a : b; }`,
  [`nan_min_${T}`]:
    `inline ${T} nan_min_${T}(${T} a, ${T} b) { return ((a < b) | (a != a)) ? a : b; }`,
  // From the remainder, as in PyTorch: floordiv(1, 0.1) is 9, since 0.1 is rounded up.
  [`float_floordiv_${T}`]:
    `inline ${T} float_floordiv_${T}(${T} a, ${T} b) { if (b == 0) return a / b; ${T} r = fmod(a, b), q = (a - r) / b; if (r != 0 && (r < 0) != (b < 0)) q -= 1; return q == 0 ? copysign((${T})0, a / b) : rint(q); }`,
  [`float_mod_${T}`]:
    `inline ${T} float_mod_${T}(${T} a, ${T} b) { ${T} r = fmod(a, b); return (r != 0 && ((r < 0) != (b < 0))) ? r + b : r; }`,
  // A driver's own may stay below 1 by a unit of the last place, and derivatives take x times what is missing.
  [`tanh_${T}`]: `inline ${T} tanh_${T}(${T} x) { return fabs(x) > ${
    T === "float" ? "9.02f" : "19.07"
  } ? copysign((${T})1, x) : tanh(x); }`,
});

/**
 * Casts of floats to integers: the whole part, held at the bounds; 0 for NaN. uchar has the low 8 bits of
 * the whole part; 0 for what is infinite or NaN. `limit` is 2 to the bits that integers have but for the sign.
 */
const casts = (T: string): Record<string, string> => {
  const to = (I: string, limit: string, prefix: string): string =>
    `inline ${I} ${I}_of_${T}(${T} x) { return x >= ${limit} ? ${prefix}_MAX : x <= -${limit} ? ${prefix}_MIN : x == x ? (${I})x : 0; }`;
  const suffix = T === "float" ? "f" : "";
  const [int, long] = [`2147483648.0${suffix}`, `9223372036854775808.0${suffix}`];
  return {
    [`int_of_${T}`]: to("int", int, "INT"),
    [`long_of_${T}`]: to("long", long, "LONG"),
    [`uchar_of_${T}`]:
      `inline uchar uchar_of_${T}(${T} x) { return fabs(x) < ${long} ? (uchar)(long)x : 0; }`,
  };
};

/** uchar has no negative values, so its divisions need only the guard against zero. */
const unsigned: Record<string, string> = {
  safe_div_uchar:
    "inline uchar safe_div_uchar(uchar a, uchar b) { return b == 0 ? 0 : (uchar)(a / b); }",
  safe_floordiv_uchar:
    "inline uchar safe_floordiv_uchar(uchar a, uchar b) { return b == 0 ? 0 : (uchar)(a / b); }",
  safe_mod_uchar:
    "inline uchar safe_mod_uchar(uchar a, uchar b) { return b == 0 ? 0 : (uchar)(a % b); }",
  int_pow_uchar:
    "inline uchar int_pow_uchar(uchar a, uchar b) { uchar r = 1; while (b > 0) { if (b & 1) r *= a; a *= a; b >>= 1; } return r; }",
};

/** Join of two vectors: the lanes of the 32, for each of two results. */
interface Shuffle {
  readonly first: readonly number[];
  readonly second: readonly number[];
  /** The vectors of the pairs, and where their results go. */
  readonly pairs: readonly (readonly [a: number, b: number, first: number, second: number])[];
}

/** The rounds of a transposition: within quarters of vectors, then of quarters. */
function transposition(): readonly Shuffle[] {
  const quarters = (of: (k: number) => number[]): number[] => [0, 4, 8, 12].flatMap(of);
  const pick = (...starts: number[]): number[] => starts.flatMap((k) => [k, k + 1, k + 2, k + 3]);
  const even = pick(0, 8, 16, 24), odd = pick(4, 12, 20, 28);
  const eight = [0, 1, 2, 3, 4, 5, 6, 7];
  return [
    {
      first: quarters((k) => [k, 16 + k, k + 1, 17 + k]),
      second: quarters((k) => [k + 2, 18 + k, k + 3, 19 + k]),
      pairs: eight.map((k) => [2 * k, 2 * k + 1, 2 * k, 2 * k + 1]),
    },
    {
      first: quarters((k) => [k, k + 1, 16 + k, 17 + k]),
      second: quarters((k) => [k + 2, k + 3, 18 + k, 19 + k]),
      pairs: eight.map((k) => {
        const group = (k >> 1) * 4, h = k & 1;
        return [group + h, group + h + 2, group + 2 * h, group + 2 * h + 1];
      }),
    },
    {
      first: even,
      second: odd,
      pairs: eight.map((k) => {
        const at = (k >> 2) * 8 + (k & 3);
        return [at, at + 4, at, at + 4];
      }),
    },
    { first: even, second: odd, pairs: eight.map((k) => [k, k + 8, k, k + 8]) },
  ];
}

/** Place of 16 rows of 16 floats: the address space, and the parameter with their distance. */
type Rows = readonly [space: "global" | "local", apart: `${"long" | "int"} ${"step" | "apart"}`];

/** A function that stores 16 rows as columns. */
function transposedMoveText(name: string, [source, from]: Rows, [destination, to]: Rows): string {
  const [step, apart] = [from, to].map((parameter) => parameter.split(" ")[1]!);
  const parameters = `${source} const float* from, ${from}, ${destination} float* to, ${to}`;
  return `${OUT_OF_LINE}inline void ${name}(${parameters}) {
  float16 v[16];
  for (int r = 0; r < 16; ++r) v[r] = vload16(0, from + r * ${step});
  transpose_16(v);
  for (int r = 0; r < 16; ++r) vstore16(v[r], 0, to + r * ${apart});
}`;
}

function transposeText(): string {
  const lines = ["inline void transpose_16(float16* v) {"];
  let name = (k: number): string => `v[${k}]`;
  transposition().forEach(({ first, second, pairs }, round) => {
    const from = name;
    name = (k) => `r${round}_${k}`;
    for (const [a, b, p, q] of pairs) {
      const text = (lanes: readonly number[]): string =>
        lanes.map((l) => `${from(l < 16 ? a : b)}.s${(l & 15).toString(16)}`).join(", ");
      lines.push(`  const float16 ${name(p)} = (float16)(${text(first)});`);
      lines.push(`  const float16 ${name(q)} = (float16)(${text(second)});`);
    }
  });
  for (let k = 0; k < 16; k++) lines.push(`  v[${k}] = ${name(k)};`);
  return [...lines, "}"].join("\n");
}

/** One number from 16 lanes, by halves. */
const fold = (name: string, T: string, join: (a: string, b: string) => string) => ({
  [`fold_${name}_${T}`]: `inline ${T} fold_${name}_${T}(${T}16 v) {
  const ${T}8 a = ${join("v.lo", "v.hi")};
  const ${T}4 b = ${join("a.lo", "a.hi")};
  const ${T}2 c = ${join("b.lo", "b.hi")};
  const ${T}2 d = ${join("c", "c.yx")};
  return d.x;
}`,
});
const select = (operator: string) => (a: string, b: string) =>
  `select(${b}, ${a}, (${a} ${operator} ${b}) | (${a} != ${a}))`;

/**
 * The best of two vectors, and of 16 lanes, with their positions: -1 where there is none. NaN is better than
 * a number; among equals the first position is taken.
 */
const places = (name: "max" | "min", T: string): Record<string, string> => ({
  [`join_arg${name}_${T}16`]:
    `inline void join_arg${name}_${T}16(${T}16* best, int16* at, ${T}16 value, int16 place) {
  const int16 isNaN = value != value, wasNaN = *best != *best;
  const int16 better = ((value ${name === "max" ? ">" : "<"} *best) | isNaN) & ~wasNaN;
  const int16 equal = (value == *best) | (isNaN & wasNaN);
  const int16 takes = (place >= 0) & ((*at < 0) | better | (equal & (place < *at)));
  *best = select(*best, value, takes);
  *at = select(*at, place, takes);
}`,
  [`fold_arg${name}_${T}16`]: `inline int fold_arg${name}_${T}16(${T}16 best, int16 at) {
  const ${T} value = fold_${name}_${T}(best);
  const int16 holds = (at >= 0) & ((best == value) | (best != best));
  return fold_min_int(select((int16)(INT_MAX), at, holds));
}`,
});

const helpers: Readonly<Record<string, Helper>> = {
  ...direct,
  ...integer("int"),
  ...integer("long"),
  ...unsigned,
  ...floating("float"),
  ...floating("double"),
  ...casts("float"),
  ...casts("double"),
  int_of_float_16: `inline int16 int_of_float_16(float16 x) {
  const int16 above = x >= 2147483648.0f;
  const float16 low = select(x, (float16)(-2147483648.0f), x < -2147483648.0f);
  const int16 whole = convert_int16(select(low, (float16)(0.0f), above | (x != x)));
  return select(whole, (int16)(INT_MAX), above);
}`,
  ...["float", "int"].reduce((all, T) => ({
    ...all,
    ...fold("sum", T, (a, b) => `${a} + ${b}`),
    ...fold("prod", T, (a, b) => `${a} * ${b}`),
    ...fold("max", T, select(">")),
    ...fold("min", T, select("<")),
  }), {}),
  // Of masks, whose true is -1.
  fold_max_uchar: "inline uchar fold_max_uchar(int16 v) { return (uchar)-fold_min_int(v); }",
  fold_min_uchar: "inline uchar fold_min_uchar(int16 v) { return (uchar)-fold_max_int(v); }",
  ...places("max", "float"),
  ...places("min", "float"),
  ...places("max", "int"),
  ...places("min", "int"),
  ...part("float"),
  ...part("half"),
  ...part("ushort"),
  ...part("int"),
  ...part("uchar"),
  ...vectorMath,
  ...warpHelpers,
  ...matrixHelpers,
  ...mmaHelpers,
  ...warpgroupHelpers,
  // PoCL 3.1 compiles vstore16 to three stores.
  store_16: `inline void store_16(float16 v, global float* p) {
  typedef float16 __attribute__((aligned(4))) unaligned;
  *(global unaligned*)p = v;
}`,
  // OpenCL's own prefetch does nothing (PoCL 3.1).
  prefetch_16: `inline void prefetch_16(global const float* p) {
#ifdef CLANG_BUILTINS
  __builtin_prefetch(p);
#endif
}`,
  // A store that bypasses the caches; only whole cache lines can, and only clang has a builtin for it.
  stream_16: `inline void stream_16(float16 v, global float* p) {
#ifdef CLANG_BUILTINS
  if (((ulong)p & 63) == 0) __builtin_nontemporal_store(v, (global float16*)p);
  else
#endif
    vstore16(v, 0, p);
}`,
  lanes16:
    "inline int16 lanes16() { return (int16)(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }",
  sum_float16:
    "inline float sum_float16(float16 v) { float8 a = v.lo + v.hi; float4 b = a.lo + a.hi; float2 c = b.lo + b.hi; return c.x + c.y; }",
  sum_float8:
    "inline float sum_float8(float8 v) { float4 b = v.lo + v.hi; float2 c = b.lo + b.hi; return c.x + c.y; }",
  sum_float4: "inline float sum_float4(float4 v) { float2 c = v.lo + v.hi; return c.x + c.y; }",
  pair_short16: "inline short16 pair_short16(short2 a) { return as_short16((int8)(as_int(a))); }",
  pair_short8: "inline short8 pair_short8(short2 a) { return as_short8((int4)(as_int(a))); }",
  // Products of neighbours, added.
  dot_short8: `inline int4 dot_short8(short8 a, short8 b) {
  int8 p = convert_int8(a) * convert_int8(b);
  return p.even + p.odd;
}`,
  dot_short16: `inline int8 dot_short16(short16 a, short16 b) {
#if defined(CLANG_BUILTINS) && defined(__AVX2__)
  return __builtin_ia32_pmaddwd256(a, b);
#else
  int16 p = convert_int16(a) * convert_int16(b);
  return p.even + p.odd;
#endif
}`,
  // Vectors of 32 are no type of OpenCL C: in clang they are one, as processors with AVX-512 have them.
  load_short32: `${SHORT32}
inline short32 load_short32(private const short* p) {
#ifdef WIDE_SHORTS
  return *(private const short32*)p;
#else
  short32 r; r.lo = vload16(0, p); r.hi = vload16(1, p);
  return r;
#endif
}`,
  pair_short32: `${SHORT32}
inline short32 pair_short32(short2 a) {
#ifdef WIDE_SHORTS
  return __builtin_astype((int16)(as_int(a)), short32);
#else
  short32 r; r.lo = r.hi = as_short16((int8)(as_int(a)));
  return r;
#endif
}`,
  dot_short32: `${SHORT32}
inline int16 dot_short32(short32 a, short32 b) {
#ifdef WIDE_SHORTS
  return __builtin_ia32_pmaddwd512(a, b);
#else
  return (int16)(dot_short16(a.lo, b.lo), dot_short16(a.hi, b.hi));
#endif
}`,
  ...packRow,
  ...reload,
  // The same for elements that lie `apart`, in `parts` of `count`: each takes every parts-th of them.
  pack_apart:
    `inline void pack_apart(local float* to, global const float* from, int count, int parts, int apart, int low, int high) {
  low = max(low, 0); high = max(high, low);
  for (int p = 0; p < parts; ++p) {
    const int first = clamp((low - p + parts - 1) / parts, 0, count);
    const int end = clamp((high - p + parts - 1) / parts, first, count);
    for (int k = 0; k < first; ++k) to[k] = 0;
    for (int k = first; k < end; ++k) to[k] = from[(k * parts + p) * apart];
    for (int k = end; k < count; ++k) to[k] = 0;
    to += count;
  }
}`,
  // Lanes from `low` to before `high`, the others 0: of neighbours, and of every second element.
  ...between("float"),
  ...between("half"),
  ...between("ushort"),
  // Two parts of neighbours, as pack_apart has them; parts are of whole vectors.
  pack_halves:
    `inline void pack_halves(local float* to, global const float* from, int count, int low, int high) {
  for (int k = 0; k < count; k += 16) {
    const float16 a = load_between_float(from + 2 * k, low - 2 * k, high - 2 * k);
    const float16 b = load_between_float(from + 2 * k + 16, low - 2 * k - 16, high - 2 * k - 16);
    vstore16((float16)(a.even, b.even), 0, to + k);
    vstore16((float16)(a.odd, b.odd), 0, to + count + k);
  }
}`,
  ...between("int"),
  ...between("uchar"),
  ...blocks("float"),
  ...blocks("int"),
  // Rows become columns.
  transpose_16: transposeText(),
  // 16 rows of 16 elements, `step` apart in memory, as columns, and the same in the other direction.
  load_transposed_16: transposedMoveText("load_transposed_16", ["global", "long step"], [
    "local",
    "int apart",
  ]),
  store_transposed_16: transposedMoveText("store_transposed_16", ["local", "int apart"], [
    "global",
    "long step",
  ]),
  move_transposed_16: transposedMoveText("move_transposed_16", ["local", "int step"], [
    "local",
    "int apart",
  ]),
  // The same where there are fewer rows and columns; rows behind the last one repeat it.
  load_part_transposed_16:
    `${OUT_OF_LINE}inline void load_part_transposed_16(global const float* from, long step, local float* to, int apart, int rows, int columns) {
  float16 v[16];
  if (columns >= 16) for (int r = 0; r < 16; ++r) v[r] = vload16(0, from + min(r, rows - 1) * step);
  else for (int r = 0; r < 16; ++r) v[r] = load_part_float(from + min(r, rows - 1) * step, columns);
  transpose_16(v);
  for (int r = 0; r < 16; ++r) if (r < columns) vstore16(v[r], 0, to + r * apart);
}`,
  // Round to nearest, ties to even; a NaN stays one. A GELU of 25 million in bfloat16: 62 us on an H200, 48 by PTX.
  to_bfloat16: `inline ushort to_bfloat16(float v) {
#ifdef ROUNDS_TO_BFLOAT16
  ushort nearest;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(nearest) : "f"(v));
  return nearest;
#else
  uint bits = as_uint(v);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return (ushort)((bits >> 16) | 0x40u);
  return (ushort)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}`,
  // Without cl_khr_fp16 there are no variables of type half.
  round_float16:
    "inline float round_float16(float v) { ushort h; vstore_half(v, 0, (half*)&h); return vload_half(0, (half*)&h); }",
  to_float16:
    "inline ushort to_float16(float v) { ushort h; vstore_half(v, 0, (half*)&h); return h; }",
  // PoCL 3.1 converts one half by a function of many steps, 25 ns.
  half_at: `inline float half_at(global const half* p, long i) {
#if defined(CLANG_BUILTINS) && defined(__F16C__)
  const short8 bits = (short8)(((global const short*)p)[i], 0, 0, 0, 0, 0, 0, 0);
  return __builtin_ia32_vcvtph2ps(bits)[0];
#else
  return vload_half(i, p);
#endif
}`,
  halves_8: `inline float8 halves_8(global const half* p) {
#if defined(CLANG_BUILTINS) && defined(__F16C__)
  return __builtin_ia32_vcvtph2ps256(vload8(0, (global const short*)p));
#else
  return vload_half8(0, p);
#endif
}`,
  ...Object.fromEntries([4, 8, 16].map((n) => [
    `from_float16_${n}`,
    `inline float${n} from_float16_${n}(ushort${n} v) { return vload_half${n}(0, (const half*)&v); }`,
  ])),
  from_float16: "inline float from_float16(ushort v) { return vload_half(0, (const half*)&v); }",
  round_float16_16:
    "inline float16 round_float16_16(float16 v) { ushort16 h; vstore_half16(v, 0, (half*)&h); return vload_half16(0, (half*)&h); }",
  to_bfloat16_16: `inline ushort16 to_bfloat16_16(float16 v) {
  const uint16 bits = as_uint16(v);
  const uint16 nearest = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
  return convert_ushort16(select(nearest, (bits >> 16) | 0x40u, as_uint16(v != v)));
}`,
  from_bfloat16: "inline float from_bfloat16(ushort v) { return as_float((uint)v << 16); }",
  ...decodeHelpers,
  // Philox4x32-10: J. Salmon, M. Moraes, R. Dror, D. Shaw, Parallel random numbers: as easy as
  // 1, 2, 3, SC 2011. The counter is (element, stream, upper half of element); the upper 24 bits make the number.
  philox: `inline float philox(ulong index, uint seed, uint stream) {
  uint4 c = (uint4)((uint)index, stream, (uint)(index >> 32), 0u);
  uint2 k = (uint2)(seed, 0x9E3779B9u);
  for (int round = 0; round < 10; ++round) {
    uint h0 = mul_hi(0xD2511F53u, c.x), l0 = 0xD2511F53u * c.x;
    uint h1 = mul_hi(0xCD9E8D57u, c.z), l1 = 0xCD9E8D57u * c.z;
    c = (uint4)(h1 ^ c.y ^ k.x, l1, h0 ^ c.w ^ k.y, l0);
    k += (uint2)(0x9E3779B9u, 0xBB67AE85u);
  }
  return (float)(c.x >> 8) * 5.9604644775390625e-8f;
}`,
  // Mesa 22.3's llvmpipe compares (long)i with a constant wrongly, and as_long() of two halves rightly.
  widened: `#ifdef WIDENS_BY_HALVES
inline long __attribute__((overloadable)) widened(int x) { return as_long((int2)(x, x >> 31)); }
inline long __attribute__((overloadable)) widened(long x) { return x; }
#else
#define widened(x) ((long)(x))
#endif`,
  // The first index that is out of range is kept: {operation, index, bound}, each of 64 bits. One unsigned
  // comparison finds negative ones, too; Mesa 22.3's llvmpipe takes (long)i < 0 for false whatever i is.
  checked_index: `inline long checked_index(long v, long n, int op, global volatile int* errors) {
  if ((ulong)v < (ulong)n) return v;
  if (atomic_cmpxchg(errors, 0, op) == 0) { global volatile long* found = (global volatile long*)errors; found[1] = v; found[2] = n; }
  return 0;
}`,
};

/** The names of helpers that every compiler takes: not those of warps and matrix units. */
export const portableHelpers: readonly string[] = Object.keys(helpers).filter((name) =>
  ![warpHelpers, matrixHelpers, mmaHelpers, warpgroupHelpers].some((own) => name in own)
);

/** Helpers, those that call others first. */
const fromCallers = Object.entries(helpers).reverse();

/** The names of the functions that a text calls. */
function callsIn(text: string): string[] {
  return Array.from(text.matchAll(/\b(\w+)\(/g), (match) => match[1]!);
}

/**
 * The helper functions that a source text and they themselves name, and the pragma for doubles.
 *
 * @param declares Whether the functions of OpenCL C that these call are declared, too.
 */
export function preludeFor(source: string, declares = false): string {
  const parts: string[] = [];
  const called = new Set(callsIn(source));
  let text = source;
  for (const [name, helper] of fromCallers) {
    if (!called.has(name)) continue;
    const part = typeof helper === "string" ? helper : helper(text);
    parts.push(part);
    for (const callee of callsIn(part)) called.add(callee);
    text += part;
  }
  if (declares) parts.push(declarationsOf(text));
  if (source.includes("double")) parts.push("#pragma OPENCL EXTENSION cl_khr_fp64 : enable");
  return parts.reverse().join("\n");
}
