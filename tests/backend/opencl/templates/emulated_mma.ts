/**
 * NVIDIA's warp instructions in plain OpenCL C, through local memory and barriers: kernels that are written
 * with them can be checked on any device. Each macro gives what the instruction of the same name gives, as
 * the PTX ISA says which work-item holds what.
 */
import { macros, WORDS } from "./matrix_unit_emulation.ts";

const exchange = (body: string) => `do { ${body} barrier(CLK_LOCAL_MEM_FENCE); } while (0)`;

/** An element of a tile of rows of 128 bytes, of which sixteens change places by their row. */
const element = (convert: string, at: string): string =>
  `${convert}(*(local const ushort*)(sm + ((${at}) ^ (((${at}) >> 7 & 7) << 4))))`;

/** The place in its warpgroup of row `h_`, and the column `n_`, of sum `q_` of a work-item. */
const EACH_SUM = "for (uint q_ = 0; q_ < 32; ++q_) { " +
  "const uint h_ = (lid >> 5 & 3) * 16 + (lane >> 2) + (q_ >> 1 & 1) * 8; " +
  "const uint n_ = (q_ >> 2) * 8 + (lane & 3) * 2 + (q_ & 1); ";

/** Scores of a warpgroup: rows of two tiles. */
const scores = (name: string, convert: string): string =>
  `#define ${name}(c, a, b) { ${EACH_SUM} float s_ = 0; for (uint k_ = 0; k_ < 64; ++k_) ` +
  `s_ += ${element(convert, "(a) + h_ * 128 + k_ * 2")} * ${
    element(convert, "(b) + n_ * 128 + k_ * 2")
  }; (c)[q_] = s_; } }`;

/** The sum of a warpgroup: rows in registers, times a tile whose rows are terms. */
const added = (name: string, convert: string): string =>
  `#define ${name}(c, p, b) ${
    exchange(
      "for (int q_ = 0; q_ < 16; ++q_) emu[lid * 16 + q_] = (p)[q_]; " +
        `barrier(CLK_LOCAL_MEM_FENCE); ${EACH_SUM} for (uint k_ = 0; k_ < 64; ++k_) { ` +
        "const uint x_ = emu[(lid - lane + (h_ & 7) * 4 + (k_ & 7) / 2) * 16 + " +
        "(k_ >> 4) * 4 + (h_ >> 3 & 1) + 2 * (k_ >> 3 & 1)]; " +
        `(c)[q_] += ${convert}((ushort)(k_ & 1 ? x_ >> 16 : x_)) * ${
          element(convert, "(b) + k_ * 128 + n_ * 2")
        }; } }`,
    )
  }`;

/** Both products of a statement. */
const both = (name: string, one: string): string =>
  `#define ${name}(c, a, b, c2, a2, b2) ${one}(c, a, b); ${one}(c2, a2, b2)`;

const warpgroups = [["F16", "emu_half"], ["BF16", "emu_bfloat"]].flatMap(([type, convert]) => [
  scores(`EMU_WG_SCORES_${type}`, convert!),
  added(`EMU_WG_ADD_${type}`, convert!),
  both(`EMU_WG_SCORES2_${type}`, `EMU_WG_SCORES_${type}`),
  both(`EMU_WG_ADD2_${type}`, `EMU_WG_ADD_${type}`),
]);

const definitions = [
  "inline float emu_half(ushort h) { return vload_half(0, (half*)&h); }",
  "inline uint emu_to_half(float v) { ushort h; vstore_half_rte(v, 0, (half*)&h); return h; }",
  "inline float emu_bfloat(ushort h) { return as_float((uint)h << 16); }",
  "inline uint emu_to_bfloat(float v) { uint b = as_uint(v); return (b + 0x7fffu + ((b >> 16) & 1u)) >> 16; }",
  "#define EMU_WG_WRITTEN()",
  ...warpgroups,
  ...macros,
  "inline uint EMU_PAIR_F16(float x, float y) { return emu_to_half(x) | emu_to_half(y) << 16; }",
  "inline uint EMU_PAIR_BF16(float x, float y) { return emu_to_bfloat(x) | emu_to_bfloat(y) << 16; }",
  "#define EMU_EXP2(x) exp2(x)",
  `#define EMU_XOR_float(to, v, apart) ${
    exchange(
      "emu[lid] = as_uint(v); barrier(CLK_LOCAL_MEM_FENCE); to = as_float(emu[lid ^ (apart)]);",
    )
  }`,
].join("\n");

/**
 * The text of a kernel whose warp instructions are emulated.
 *
 * @param source A generated kernel's parameter list and body.
 * @param items Work-items of a group.
 */
export function emulated(source: string, items: number): { helpers: string; source: string } {
  const words = source.includes("WG_ADD") ? 16 : 8;
  const place = "const int lid = get_local_id(0), lane = lid & 31;";
  const renamed = source.replaceAll(/\b(MMA|WARP)_/g, "EMU_").replaceAll(/\bWG_/g, "EMU_WG_")
    .replace("const uint smem = (uint)(size_t)sm;", "const uint smem = 0;")
    .replaceAll("#pragma unroll", "#pragma nounroll")
    .replace("{\n", `{\n  local uint emu[${items * words}], ex[${items * WORDS}];\n  ${place}\n`);
  return { helpers: definitions, source: renamed };
}
