/**
 * Helpers that load and store lanes of vectors: whole, in part, between two bounds, every second
 * one. Where the compiler has them these are AVX-512's instructions, which take a mask.
 */
/** For what is seldom run, and would be compiled wherever it is called. */
export const OUT_OF_LINE = `#ifdef CLANG_BUILTINS
__attribute__((noinline))
#endif
`;

/** Chooses a text where the compiler has AVX-512's loads and stores of single lanes. */
const masked = (text: string, other: string): string =>
  `#ifdef CLANG_BUILTINS
#if __has_builtin(__builtin_ia32_loadups512_mask) && defined(__AVX512F__)
#define MASKED_LANES
#endif
#endif
#ifdef MASKED_LANES
${text}
#else
${other}
#endif`;

/** A pointer that builtins take: they know no address spaces, of which a CPU has one. */
const bare = (pointer: string): string => `(void*)(size_t)(${pointer})`;

/** The mask of the first lanes: of as many as a text says. */
const lanesBelow = (count: string): string => `(ushort)((1u << clamp(${count}, 0, 16)) - 1u)`;

/** Names of 32-bit lanes in the builtins for masked access. */
const maskedAccess: Readonly<Record<string, string>> = { float: "ups", int: "dqusi" };

/** An element type as lanes: their types when read and when stored, and how as many as a text says are. */
interface LaneForm {
  readonly lane: string;
  readonly stored: string;
  load(count: number, from: string): string;
  store(lanes: string, count: number, to: string): string;
}

const laneForms: Readonly<Record<string, Partial<LaneForm>>> = {
  uchar: { lane: "int", load: (n, from) => `convert_int${n}(vload${n}(0, ${from}))` },
  half: {
    ...{ lane: "float", stored: "float" },
    load: (n, from) => `vload_half${n}(0, ${from})`,
    store: (lanes, n, to) => `vstore_half${n}(${lanes}, 0, ${to})`,
  },
};

const laneForm = (T: string): LaneForm => ({
  lane: T,
  stored: T,
  load: (n, from) => `vload${n}(0, ${from})`,
  store: (lanes, n, to) => `vstore${n}(${lanes}, 0, ${to})`,
  ...laneForms[T],
});

/** Loads and stores of the first `n` lanes of a vector; without a mask in pieces of 8, 4, 2 and 1. */
export const part = (T: string): Record<string, string> => {
  const { lane, stored, load: read, store: write } = laneForm(T);
  const one = T === "half" ? "vload_half(0, p + n)" : "p[n]";
  const load = `${OUT_OF_LINE}inline ${lane}16 load_part_${T}(global const ${T}* p, int n) {
  if (n >= 16) return ${read(16, "p")};
  ${lane}16 v = 0;
  if (n <= 0) return v;
  const int count = n;
  if (count & 1) { n -= 1; v.s0 = ${one}; }
  if (count & 2) { n -= 2; v.s23 = v.s01; v.s01 = ${read(2, "p + n")}; }
  if (count & 4) { n -= 4; v.s4567 = v.s0123; v.s0123 = ${read(4, "p + n")}; }
  if (count & 8) { v.hi = v.lo; v.lo = ${read(8, "p")}; }
  return v;
}`;
  const last = T === "half" ? "vstore_half(v.s0, 0, p)" : "*p = v.s0";
  const store = `${OUT_OF_LINE}inline void store_part_${T}(${stored}16 v, global ${T}* p, int n) {
  if (n >= 16) { ${write("v", 16, "p")}; return; }
  if (n <= 0) return;
  if (n & 8) { ${write("v.lo", 8, "p")}; v.lo = v.hi; p += 8; }
  if (n & 4) { ${write("v.s0123", 4, "p")}; v.s0123 = v.s4567; p += 4; }
  if (n & 2) { ${write("v.s01", 2, "p")}; v.s01 = v.s23; p += 2; }
  if (n & 1) ${last};
}`;
  const builtin = maskedAccess[T];
  if (builtin === undefined) return { [`load_part_${T}`]: load, [`store_part_${T}`]: store };
  return {
    [`load_part_${T}`]: masked(
      `inline ${T}16 load_part_${T}(global const ${T}* p, int n) {
  return __builtin_ia32_load${builtin}512_mask(${bare("p")}, (${T}16)(0), ${lanesBelow("n")});
}`,
      load,
    ),
    [`store_part_${T}`]: masked(
      `inline void store_part_${T}(${T}16 v, global ${T}* p, int n) {
  __builtin_ia32_store${builtin}512_mask(${bare("p")}, v, ${lanesBelow("n")});
}`,
      store,
    ),
  };
};

/** Loads of lanes that are not all in memory, and stores of two vectors in turn. */
export const between = (T: string): Record<string, string> => {
  const { lane, stored } = laneForm(T), builtin = maskedAccess[T];
  const read = T === "half" ? "vload_half(k, p)" : "p[k]";
  const plain =
    `${OUT_OF_LINE}inline ${lane}16 load_between_${T}(global const ${T}* p, int low, int high) {
  if (low <= 0) return load_part_${T}(p, high);
  ${lane} lanes[16] = { 0 };
  for (int k = max(low, 0); k < min(high, 16); ++k) lanes[k] = ${read};
  return vload16(0, lanes);
}`;
  return {
    [`load_between_${T}`]: builtin === undefined ? plain : masked(
      `inline ${T}16 load_between_${T}(global const ${T}* p, int low, int high) {
  const ushort mask = ${lanesBelow("high")} & ~${lanesBelow("low")};
  return __builtin_ia32_load${builtin}512_mask(${bare("p")}, (${T}16)(0), mask);
}`,
      plain,
    ),
    [`load_apart_${T}`]:
      `inline ${lane}16 load_apart_${T}(global const ${T}* p, int low, int high) {
  const ${lane}16 a = load_between_${T}(p, 2 * low, 2 * high - 1);
  const ${lane}16 b = load_between_${T}(p + 16, 2 * low - 16, 2 * high - 17);
  return (${lane}16)(a.even, b.even);
}`,
    [`store_pairs_${T}`]:
      `inline void store_pairs_${T}(${stored}16 a, ${stored}16 b, global ${T}* p, int n) {
  ${stored}16 v, w;
  v.even = a.lo; v.odd = b.lo; w.even = a.hi; w.odd = b.hi;
  store_part_${T}(v, p, 2 * n);
  store_part_${T}(w, p + 16, 2 * n - 16);
}`,
  };
};

/** The text of a helper, which may depend on the text that calls it. */
export type Helper = string | ((callers: string) => string);

/**
 * Loads and stores of 16 lanes as instructions: PoCL's own are calls of calls (a vload16 is one of
 * two vload8, and so on), which take its compiler longer than the kernel around them.
 */
export const direct: Readonly<Record<string, Helper>> = {
  vload16: (callers) =>
    `#ifdef CLANG_BUILTINS
${
      lanesAccess(
        callers,
        (T, space) =>
          `DIRECT ${T}16 OVERLOADED load_lanes(${space} const ${T}* p) { typedef ${T}16 ALIGNED(${T}); return *(${space} const lanes*)p; }`,
      )
    }
#undef vload16
#define vload16(n, p) load_lanes((p) + 16 * (n))
#endif`,
  vstore16: (callers) =>
    `#ifdef CLANG_BUILTINS
${
      lanesAccess(
        callers,
        (T, space) =>
          `DIRECT void OVERLOADED store_lanes(${T}16 v, ${space} ${T}* p) { typedef ${T}16 ALIGNED(${T}); *(${space} lanes*)p = v; }`,
      )
    }
#undef vstore16
#define vstore16(v, n, p) store_lanes(v, (p) + 16 * (n))
#endif`,
};

/**
 * A function for each type that the callers name and each address space that they can have. They are
 * static: clang makes nothing of those that nobody calls.
 */
function lanesAccess(callers: string, text: (T: string, space: string) => string): string {
  const names = (word: string): boolean => new RegExp(`(?<![a-z])${word}(?![a-z_])`).test(callers);
  const spaces = ["global", ...names("local") ? ["local"] : [], "private"];
  const lines = ["float", "int", "short", "ushort", "uchar", "char"].filter((T) => names(T))
    .flatMap((T) => spaces.map((space) => text(T, space)));
  return lines.join("\n")
    .replaceAll("DIRECT", "static inline")
    .replaceAll("OVERLOADED", "__attribute__((overloadable, always_inline))")
    .replaceAll(/ALIGNED\((\w+)\)/g, "__attribute__((aligned(sizeof($1)))) lanes");
}

/** `count` elements: those from `low` to before `high` lie in memory, the others are zeros. */
export const packRow: Record<string, string> = {
  pack_row: masked(
    `inline void pack_row(local float* to, global const float* from, int count, int low, int high) {
  for (int k = 0; k < count; k += 16) {
    const ushort mask = ${lanesBelow("high - k")} & ~${lanesBelow("low - k")};
    const float16 v = __builtin_ia32_loadups512_mask(${bare("from + k")}, (float16)(0), mask);
    if (k + 16 <= count) vstore16(v, 0, to + k);
    else __builtin_ia32_storeups512_mask(${bare("to + k")}, v, ${lanesBelow("count - k")});
  }
}`,
    `inline void pack_row(local float* to, global const float* from, int count, int low, int high) {
  low = clamp(low, 0, count); high = clamp(high, low, count);
  for (int k = 0; k < low; ++k) to[k] = 0;
  int k = low;
  for (; k + 16 <= high; k += 16) vstore16(vload16(0, from + k), 0, to + k);
  if (high - low < 16) for (; k < high; ++k) to[k] = from[k];
  else if (k < high) vstore16(vload16(0, from + high - 16), 0, to + high - 16);
  for (k = high; k < count; ++k) to[k] = 0;
}`,
  ),
};

/**
 * Reloads behind a load. Compilers carry a scalar from one iteration to
 * the next in a register; to spread it over lanes from there takes a multiplier's port, from memory
 * none.
 */
export const reload: Record<string, string> = {
  reload: `inline void reload() {
#ifdef CLANG_BUILTINS
  __asm__ volatile("" ::: "memory");
#endif
}`,
};

/** Stores `left` blocks of neighbours, of which vector `k` has the elements `k`. */
export const blocks = (T: string): Record<string, string> => ({
  [`store_blocks_${T}`]:
    `${OUT_OF_LINE}inline void store_blocks_${T}(const ${T}* v, int length, global ${T}* p, int left) {
  for (int lane = 0; lane < left; ++lane)
    for (int k = 0; k < length; ++k) p[lane * length + k] = v[k * 16 + lane];
}`,
});
