/**
 * Products by warpgroups of NVIDIA's Hopper, emulated in OpenCL C: kernels written for them run on any device.
 * There is no warp that copies beside the others: where those wait for a stage, all work-items copy it, by
 * decoding the tensor maps as the copy engine does. What multiplies reads local memory in the layouts of the
 * PTX manual (swizzle of 128 bytes, wgmma m64nNk16).
 */

/** The place of a byte in local memory: sixteens of bytes change places by their row of 128 bytes. */
const swizzled = (at: string): string => `((${at}) ^ (((${at}) >> 7 & 7) << 4))`;

const half = "vload_half(0, (local const half*)(sm + X))";
const bfloat = "as_float((uint)*(local const ushort*)(sm + X) << 16)";

/** Copies a box: element `e` of it comes from the place that the map and its start give, or is 0. */
const copy = (rank: number): string => {
  const axes = Array.from({ length: rank }, (_, axis) => axis);
  const every = (axis: number): string => `((int)(m_[6] >> ${32 + 3 * axis} & 7) + 1)`;
  const box = (axis: number): string => {
    const last = axis === 0 ? "m_[6] >> 56" : `m_[7] >> ${8 * (axis - 1)} & 0xff`;
    return `((int)(${last}) / ${every(axis)} + 1)`;
  };
  const size = ["m_[4]", "m_[4] >> 32", "m_[5]", "m_[5] >> 32", "m_[6]"];
  const stride = ["", "m_[1] >> 32", "m_[2]", "m_[2] >> 32", "m_[3]"];
  const step = axes.map((axis) =>
    `{ const int b_ = ${box(axis)}, at_ = c${axis} + rest_ % b_ * ${every(axis)}; rest_ /= b_; ` +
    `if (at_ < 0 || at_ > (int)(uint)(${size[axis]})) is_ = 0; ` +
    `from_ += (long)at_ * ${axis === 0 ? 2 : `(long)((uint)(${stride[axis]})) * 16`}; }`
  ).join(" ");
  return `#define EMU_COPY${rank}(to, map, full, ${axes.map((axis) => `c${axis}`).join(", ")}) { \\
  global const ulong* m_ = map; const int n_ = ${axes.map(box).join(" * ")}; \\
  for (int e_ = lid; e_ < n_; e_ += get_local_size(0)) { \\
    int rest_ = e_, is_ = 1; long from_ = (long)m_[0]; ${step} \\
    const uint to_ = (to) + e_ * 2; \\
    *(local ushort*)(sm + ${swizzled("to_")}) = is_ ? *(global const ushort*)from_ : 0; } }`;
};

/**
 * Adds 16 products to each of `sums`, or begins with 0: of the rows at `a` and the columns at `b`, bytes from
 * where operands begin; `ta`, `tb` say that rows (columns) lie side by side.
 */
const multiply = (name: string, load: string): string => {
  const element = (at: string): string => load.replace("X", swizzled(at));
  return `#define ${name}(sums, columns, ta, tb, a, b, keep) { \\
  for (int j_ = 0; j_ < columns / 2; ++j_) { \\
    if (!keep) sums[j_] = 0; \\
    const uint r_ = (lid >> 5 & 3) * 16 + (lane >> 2) + (j_ >> 1 & 1) * 8; \\
    const uint n_ = (j_ >> 2) * 8 + (lane & 3) * 2 + (j_ & 1); \\
    for (uint k_ = 0; k_ < 16; ++k_) { \\
      const uint x_ = from_a + a + (ta ? k_ * 128 + r_ * 2 : r_ * 128 + k_ * 2); \\
      const uint y_ = from_b + b + (tb ? (n_ >> 6) * 8192 + k_ * 128 + (n_ & 63) * 2 : n_ * 128 + k_ * 2); \\
      sums[j_] += ${element("x_")} * ${element("y_")}; } } }`;
};

const packing = [
  "#define EMU_PACK_F16(r, x, y) { ushort h_[2]; vstore_half(x, 0, (half*)h_); " +
  "vstore_half(y, 1, (half*)h_); (r) = h_[0] | (uint)h_[1] << 16; }",
  "#define EMU_ROUNDED(v) ((as_uint(v) + 0x7fffu + ((as_uint(v) >> 16) & 1u)) >> 16)",
  "#define EMU_PACK_BF16(r, x, y) (r) = EMU_ROUNDED(x) | EMU_ROUNDED(y) << 16",
];

const macros = [
  ...packing,
  copy(3),
  copy(4),
  copy(5),
  multiply("EMU_MULTIPLY_f16", half),
  multiply("EMU_MULTIPLY_bf16", bfloat),
  "#define EMU_ARRIVE(at)",
  "#define EMU_INIT(at, count)",
  "#define EMU_INITIALIZED()",
  "#define EMU_SYNC() barrier(CLK_LOCAL_MEM_FENCE)",
];

/** A statement of several instructions, with its operands; and one of the instructions. */
const STATEMENT = /asm volatile\("\/\/@ ([^"]*wgmma\.mma_async[^"]*)" : "\+f"\((\w+)\[[^;]*;/g;
const INSTRUCTION =
  /add\.s64 xa, %\d+, (\d+); add\.s64 xb, %\d+, (\d+); wgmma\.mma_async\.sync\.aligned\.m64n(\d+)k16\.f32\.(\w+)\.\w+ @all, xa, xb, (\w+), 1, 1, (\d), (\d);/g;

/** A statement's instructions, which differ in where their operands begin, as a loop: compilers take long else. */
function emulatedProducts(_: string, text: string, sums: string): string {
  const all = [...text.matchAll(INSTRUCTION)], [, , , columns, type, , ta, tb] = all[0]!;
  const table = (name: string, of: (instruction: RegExpMatchArray) => number): string =>
    `const int ${name}[] = { ${all.map(of).join(", ")} };`;
  return `{ ${table("a_", ([, a]) => 16 * Number(a))} ${
    table("b_", ([, , b]) => 16 * Number(b))
  } ` +
    `${table("keep_", (instruction) => instruction[5] === "all" ? 1 : 0)} ` +
    `for (int i_ = 0; i_ < ${all.length}; ++i_) ` +
    `EMU_MULTIPLY_${type}(${sums}, ${columns}, ${ta}, ${tb}, a_[i_], b_[i_], keep_[i_]); }`;
}

/** The text of a kernel by warpgroups as one that any device runs. */
export function emulatedWarpgroups(source: string): string {
  const [, items] = /if \(lid >= (\d+)\) \{/.exec(source)!;
  const begin = source.indexOf(`  if (lid >= ${items}) {`),
    end = source.indexOf("    return;\n  }\n");
  const produce = source.slice(begin, end).split("\n");
  const lines = (pattern: RegExp): string =>
    produce.filter((line) => pattern.test(line)).join("\n");
  const maps = `  if (lid == 0) {\n${
    lines(/^\s*map_\w\[/)
  }\n  }\n  barrier(CLK_GLOBAL_MEM_FENCE);\n`;
  const copies =
    `barrier(CLK_LOCAL_MEM_FENCE); ${
      lines(/const uint to_a|const (int|long) (fq?\d|term)|WG_COPY/)
    }\n` +
    "barrier(CLK_LOCAL_MEM_FENCE);";
  const consume = source.slice(end + "    return;\n  }\n".length)
    .replaceAll(/WG_AWAIT\([^;]*;/g, () => copies)
    .replaceAll(STATEMENT, emulatedProducts)
    .replaceAll(/asm volatile\("\/\/@ [^;]*;"[^;]*\);/g, "")
    .replaceAll("vstore2(", `if (lid < ${items}) vstore2(`)
    .replaceAll(/const int r = .*;/g, `$& if (lid >= ${items}) continue;`);
  const body = `${source.slice(0, begin)}${maps}${consume}`
    .replace("const uint smem = (uint)(size_t)sm;", "const uint smem = 0;")
    .replaceAll("#pragma unroll", "#pragma nounroll");
  return withMacros(body, macros).replaceAll("WG_", "EMU_");
}

/** A kernel that only rounds floats, by hand. */
export function withPacking(source: string): string {
  return source.includes("MMA_PACK") ? withMacros(source, packing) : source;
}

function withMacros(source: string, macros: readonly string[]): string {
  const at = source.indexOf("{\n") + 2;
  return `${source.slice(0, at)}${macros.join("\n")}\n${source.slice(at)}`
    .replaceAll("MMA_PACK_", "EMU_PACK_");
}
