/**
 * Declarations of the functions of OpenCL C that a program calls.
 *
 * PoCL (3.1 to 7.1) has clang read `opencl-c.h` before each program: 14,500 declarations, which take 90
 * of the 125 ms that a small program needs, and 17 of the 22 ms where its kernels are in PoCL's cache. It
 * leaves them out where the header's guard is defined; a program then brings those that it calls.
 */

/** The guard of `opencl-c.h`, as an option of the compiler. */
export const WITHOUT_HEADER = "-D_OPENCL_H_";

/** A scalar type, and the integers of its size: signed and unsigned. */
const types = {
  char: ["char", "uchar"],
  uchar: ["char", "uchar"],
  short: ["short", "ushort"],
  ushort: ["short", "ushort"],
  int: ["int", "uint"],
  uint: ["int", "uint"],
  long: ["long", "ulong"],
  ulong: ["long", "ulong"],
  float: ["int", "uint"],
  double: ["long", "ulong"],
} as const;

type Scalar = keyof typeof types;

/** Every expression may have them, whatever a text names: literals, sizes, comparisons. */
const common: ReadonlySet<Scalar> = new Set(["int", "uint", "long", "ulong", "float"]);

const floats: readonly Scalar[] = ["float", "double"];
const integers = (Object.keys(types) as Scalar[]).filter((T) => !floats.includes(T));
const numbers = [...integers, ...floats];

/** Lanes of vectors; those of three are never used. */
const widths = ["", "2", "4", "8", "16"] as const;

/**
 * Declaration of a function: one for each type and width, with `$T` for the vector, `$S` for its
 * element, `$I` and `$U` for the integers of its size, `$P` for each address space.
 */
interface Family {
  readonly types: readonly Scalar[];
  readonly forms: readonly string[];
  /** Those of vectors only. */
  readonly vectorForms?: readonly string[];
  readonly spaces?: readonly string[];
  /** Clang's assumption about a call; const: it depends on its arguments alone. */
  readonly attribute?: "const" | "pure" | "convergent" | "none";
}

const unary: Family = { types: floats, forms: ["$T($T)"] };
const binary: Family = { types: floats, forms: ["$T($T, $T)"] };
const ternary: Family = { types: floats, forms: ["$T($T, $T, $T)"] };
const largest: Family = { ...binary, vectorForms: ["$T($T, $S)"] };
const extremum: Family = { ...largest, types: numbers };
const test: Family = { types: floats, forms: ["$test($T)"] };
const ofLanes: Family = { types: ["char", "short", "int", "long"], forms: ["int($T)"] };
const ofBits: Family = { types: integers, forms: ["$T($T)"] };
const once = (form: string, attribute: Family["attribute"] = "const"): Family => ({
  types: ["int"],
  forms: [form],
  attribute,
});
const place = once("size_t(uint)");
const fence = (attribute: Family["attribute"]): Family =>
  once("void(cl_mem_fence_flags)", attribute);
const atomic = (form: string): Family => ({
  types: ["int", "uint"],
  forms: [form],
  spaces: ["global", "local"],
  attribute: "none",
});
const writable = ["global", "local", "private"], readable = ["constant", ...writable];

function each(names: string, family: Family): Record<string, Family> {
  return Object.fromEntries(names.split(" ").map((name) => [name, family]));
}

const families: ReadonlyMap<string, Family> = new Map(Object.entries({
  ...each(
    "acos acosh asin asinh atan atanh cbrt ceil cos cosh erf erfc exp exp2 expm1 fabs",
    unary,
  ),
  ...each("floor log log10 log1p log2 rint round rsqrt sin sinh sqrt tan tanh trunc", unary),
  ...each("atan2 copysign fmod pow remainder", binary),
  ...each("fmax fmin", largest),
  ...each("fma mad", ternary),
  ...each("max min", extremum),
  clamp: { types: numbers, forms: ["$T($T, $T, $T)"], vectorForms: ["$T($T, $S, $S)"] },
  select: { types: numbers, forms: ["$T($T, $T, $I)", "$T($T, $T, $U)"] },
  ...each("isnan isinf isfinite", test),
  ...each("any all", ofLanes),
  ...each("clz popcount", ofBits),
  abs: { types: integers, forms: ["$U($T)"] },
  mul_hi: { types: integers, forms: ["$T($T, $T)"] },
  ...each("get_global_id get_local_id get_group_id", place),
  ...each("get_global_size get_local_size get_num_groups get_global_offset", place),
  barrier: fence("convergent"),
  ...each("mem_fence read_mem_fence write_mem_fence", fence("none")),
  ...each("atomic_inc atomic_dec", atomic("$T(volatile $P $T*)")),
  ...each("atomic_add atomic_sub atomic_or atomic_and", atomic("$T(volatile $P $T*, $T)")),
  ...each("atomic_xor atomic_min atomic_max atomic_xchg", atomic("$T(volatile $P $T*, $T)")),
  atomic_cmpxchg: atomic("$T(volatile $P $T*, $T, $T)"),
}));

/** Functions whose names end with the width of their vectors. */
const ofOneWidth: readonly [pattern: RegExp, family: Family][] = [
  [/^vload(\d+)$/, {
    types: numbers,
    forms: ["$T(size_t, const $P $S*)"],
    spaces: readable,
    attribute: "pure",
  }],
  [/^vstore(\d+)$/, {
    types: numbers,
    forms: ["void($T, size_t, $P $S*)"],
    spaces: writable,
    attribute: "none",
  }],
  [/^vload_half(\d*)$/, {
    types: ["float"],
    forms: ["$T(size_t, const $P half*)"],
    spaces: readable,
    attribute: "pure",
  }],
  [/^vstore_half(\d*)(?:_rte)?$/, {
    types: floats,
    forms: ["void($T, size_t, $P half*)"],
    spaces: writable,
    attribute: "none",
  }],
];

/** The family of a function, and its width where its name says it; undefined for any other name. */
function familyOf(name: string): { family: Family; width?: string } | undefined {
  const family = families.get(name);
  if (family) return { family };
  for (const [pattern, family] of ofOneWidth) {
    const found = pattern.exec(name);
    if (found) return { family, width: found[1]! };
  }
  const [, type, width] = /^convert_([a-z]+)(\d*)$/.exec(name) ?? [];
  if (!type || !(type in types)) return undefined;
  return { family: { types: numbers, forms: [`${type}${width}($T)`] }, width: width! };
}

/** The functions that can be declared, without `convert_` and those of one width. */
export const declared: readonly string[] = [...families.keys()];

/** The declarations of the functions of OpenCL C that a text calls. */
export function declarationsOf(text: string): string {
  const called = new Set([...text.matchAll(/\b([a-z]\w*)\s*\(/g)].map(([, name]) => name!));
  const scalars = numbers.filter((T) => common.has(T) || text.includes(T));
  const last = widths.findLastIndex((n) => n === "" || new RegExp(`[a-z]${n}\\b`).test(text));
  const used = widths.slice(0, last + 1);
  return [...called].flatMap((name) => {
    const found = familyOf(name);
    // What the text defines itself is not declared.
    if (!found || text.includes(`#define ${name}(`)) return [];
    const { family, width } = found;
    const declared = family.types.filter((T) => scalars.includes(T)).flatMap((T) =>
      (width === undefined ? used : [width]).flatMap((n) => formsOf(family, T, n))
    );
    const attributes = attributesOf(family);
    return [...new Set(declared)].map((form) => form.replace("(", ` ${attributes} ${name}(`) + ";");
  }).join("\n");
}

function attributesOf({ attribute = "const" }: Family): string {
  return `__attribute__((overloadable${attribute === "none" ? "" : `, ${attribute}`}))`;
}

/** The forms of a family for a type and width, in each address space. */
function formsOf(
  { forms, vectorForms = [], spaces = [""] }: Family,
  T: Scalar,
  n: string,
): string[] {
  const [I, U] = types[T];
  return [...forms, ...n === "" ? [] : vectorForms].flatMap((form) =>
    spaces.map((space) =>
      form.replaceAll("$test", n === "" ? "int" : `${I}${n}`)
        .replaceAll("$T", `${T}${n}`)
        .replaceAll("$S", T)
        .replaceAll("$I", `${I}${n}`)
        .replaceAll("$U", `${U}${n}`)
        .replaceAll("$P", space)
    )
  );
}
