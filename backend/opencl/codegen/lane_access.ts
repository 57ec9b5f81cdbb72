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

/** Types of elements as lanes, when read, and when they are stored. */
function laneForms(
  T: string,
): { readonly lane: string; readonly read: string; readonly stored: string } {
  const lane = T === "uchar" || T === "int" ? "int" : T === "ushort" ? "ushort" : "float";
  const read = T === "half" ? "vload_half(k, p)" : "p[k]";
  return { lane, read, stored: T === "uchar" ? "uchar" : lane };
}

/** Loads and stores of the first `n` lanes of a vector. */
export const part = (T: string): Record<string, string> => {
  const { lane, read, stored } = laneForms(T);
  const write = T === "half" ? "vstore_half(lanes[k], k, p)" : "p[k] = lanes[k]";
  const load = `${OUT_OF_LINE}inline ${lane}16 load_part_${T}(global const ${T}* p, int n) {
  ${lane} lanes[16] = { 0 };
  for (int k = 0; k < min(n, 16); ++k) lanes[k] = ${read};
  return vload16(0, lanes);
}`;
  const store = `${OUT_OF_LINE}inline void store_part_${T}(${stored}16 v, global ${T}* p, int n) {
  ${stored} lanes[16];
  vstore16(v, 0, lanes);
  for (int k = 0; k < min(n, 16); ++k) ${write};
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
  const { lane, read, stored } = laneForms(T);
  const builtin = maskedAccess[T];
  const plain =
    `${OUT_OF_LINE}inline ${lane}16 load_between_${T}(global const ${T}* p, int low, int high) {
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
  const lines = ["float", "int", "ushort", "uchar", "char"].filter((T) => names(T))
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
    __builtin_ia32_storeups512_mask(${bare("to + k")}, v, ${lanesBelow("count - k")});
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
