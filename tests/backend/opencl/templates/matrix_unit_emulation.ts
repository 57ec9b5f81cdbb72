/**
 * Matrix units of NVIDIA devices, emulated in OpenCL C: kernels written for them run on any device. Warps
 * exchange their fragments through local memory, in the layouts of the PTX manual (ldmatrix, mma.m16n8k16,
 * mma.m16n8k8); asynchronous copies are made at once.
 */
import { backendOf } from "../../../../backend/internal.ts";
import type { Target } from "../../../../backend/kernel/target.ts";
import type { OpenCLBackend } from "../../../../backend/opencl/runtime/opencl_backend.ts";
import { Programs } from "../../../../backend/opencl/runtime/programs.ts";
import { assert } from "@std/assert";
import { DeviceHandle, type DType, manager, type Tensor, withDevice } from "../../../../mod.ts";
import { withoutOptimizing } from "../fixture.ts";
import { emulatedWarpgroups, withPacking } from "./warpgroup_emulation.ts";

/** Words of a work-item's fragments: four of the left operand, two of the right. */
export const WORDS = 6;

/** Sums of a fragment over `depth` terms; `left` and `right` read an element of a warp's fragments. */
function product(name: string, depth: number, left: string, right: string): string {
  return `#define ${name}(c, a, b) { \\
  for (int q_ = 0; q_ < 4; ++q_) ex[lid * ${WORDS} + q_] = (a)[q_]; \\
  for (int q_ = 0; q_ < 2; ++q_) ex[lid * ${WORDS} + 4 + q_] = (b)[q_]; \\
  barrier(CLK_LOCAL_MEM_FENCE); \\
  for (int h_ = 0; h_ < 4; ++h_) { \\
    const int row_ = (lane >> 2) + (h_ >> 1) * 8, column_ = (lane & 3) * 2 + (h_ & 1); \\
    for (int k_ = 0; k_ < ${depth}; ++k_) (c)[h_] += ${left} * ${right}; \\
  } \\
  barrier(CLK_LOCAL_MEM_FENCE); }`;
}

/** Word \`reg\` of the fragments of a lane of this warp. */
const word = (lane: string, reg: string): string =>
  `ex[((lid & ~31) + ${lane}) * ${WORDS} + ${reg}]`;

/** An element of 16 bits of the fragments of m16n8k16. */
function halves(read: (word: string, half: string) => string): [left: string, right: string] {
  const pair = "((k_ & 7) >> 1)", half = "(k_ & 1)";
  return [
    read(word(`(row_ & 7) * 4 + ${pair}`, "(row_ >> 3) + (k_ >> 3) * 2"), half),
    read(word(`column_ * 4 + ${pair}`, "4 + (k_ >> 3)"), half),
  ];
}

const f16 = halves((w, half) => `vload_half(${half}, (local const half*)&${w})`);
const bf16 = halves((w, half) => `as_float((${w} >> (16 * ${half})) << 16)`);
const tf32 = [
  `as_float(${word("(row_ & 7) * 4 + (k_ & 3)", "(row_ >> 3) + (k_ >> 2) * 2")})`,
  `as_float(${word("column_ * 4 + (k_ & 3)", "4 + (k_ >> 2)")})`,
] as const;

/** The row that lane \`i\` gave for one of four matrices of 8 rows of 16 bytes. */
const rowOf = (matrix: number, i: string): string =>
  `sm + (ex[((lid & ~31) + ${matrix * 8} + ${i}) * ${WORDS}] - smem)`;

function load(name: string, read: (matrix: number) => string): string {
  const reads = [0, 1, 2, 3].map((matrix) => `r${matrix} = ${read(matrix)};`).join(" ");
  return `#define ${name}(r0, r1, r2, r3, at) { ex[lid * ${WORDS}] = (at); \\
  barrier(CLK_LOCAL_MEM_FENCE); ${reads} barrier(CLK_LOCAL_MEM_FENCE); }`;
}

const transposed = (matrix: number): string => {
  const part = (row: string): string =>
    `(uint)((local const ushort*)(${rowOf(matrix, row)}))[lane >> 2]`;
  return `${part("(lane & 3) * 2")} | ${part("(lane & 3) * 2 + 1")} << 16`;
};

/** The instructions of a unit, for kernels with `ex`, `lid`, `lane`, `sm` and `smem`. */
export const macros = [
  `#define EMU_COPY16(to, from, count) { const int n_ = (count); for (int b_ = 0; b_ < 16; ++b_) \\
  sm[(to) - smem + b_] = b_ < n_ ? ((global const uchar*)(from))[b_] : 0; }`,
  `#define EMU_COPY4(to, from, count) { const int n_ = (count); for (int b_ = 0; b_ < 4; ++b_) \\
  sm[(to) - smem + b_] = b_ < n_ ? ((global const uchar*)(from))[b_] : 0; }`,
  "#define EMU_PUT(to, v) *(local uint4*)(sm + ((to) - smem)) = (v)",
  "#define EMU_COMMIT()",
  "#define EMU_WAIT(n)",
  load("EMU_LOAD4", (matrix) => `((local const uint*)(${rowOf(matrix, "(lane >> 2)")}))[lane & 3]`),
  load("EMU_LOAD4T", transposed),
  "#define EMU_LOAD1(r, at) r = *(local const uint*)(sm + ((at) - smem))",
  product("EMU_F16", 16, ...f16),
  product("EMU_BF16", 16, ...bf16),
  product("EMU_TF32", 8, ...tf32),
  // Ten bits of the mantissa stay, as in TF32.
  "#define EMU_ROUND(v) v = (v + 0x1000) & 0xffffe000",
  `#define EMU_SPLIT(v, rest) { const uint high_ = (v + 0x1000) & 0xffffe000; \\
  rest = (as_uint(as_float(v) - as_float(high_)) + 0x1000) & 0xffffe000; v = high_; }`,
];

/** Exchanges between work-items of a warp, through local memory: all of a group are at the same place. */
const exchange = (name: string, T: string, from: string): string =>
  `#define EMU_${name}(to, v, apart) { warp_ex[get_local_id(0)] = as_uint(v); \\
  barrier(CLK_LOCAL_MEM_FENCE); const int lane_ = (int)get_local_id(0) & 31, apart_ = (apart); \\
  to = as_${T}(warp_ex[${from}]); barrier(CLK_LOCAL_MEM_FENCE); }`;

const warpMacros = [
  exchange("XOR_float", "float", "get_local_id(0) ^ apart_"),
  exchange("XOR_int", "int", "get_local_id(0) ^ apart_"),
  exchange("UP", "uint", "get_local_id(0) - (lane_ >= apart_ ? apart_ : 0)"),
  `#define EMU_VOTE(to, v) { warp_ex[get_local_id(0)] = (v); barrier(CLK_LOCAL_MEM_FENCE); \\
  uint votes_ = 0; for (int l_ = 0; l_ < 32; ++l_) \\
  votes_ |= (uint)(warp_ex[((int)get_local_id(0) & ~31) + l_] != 0) << l_; \\
  to = votes_; barrier(CLK_LOCAL_MEM_FENCE); }`,
  "#define EMU_SYNC() barrier(CLK_LOCAL_MEM_FENCE)",
];

/** A kernel of warps as one that any device runs. */
function emulatedWarps(source: string): string {
  const at = source.indexOf("{\n") + 2;
  return `${source.slice(0, at)}  local uint warp_ex[512];\n${warpMacros.join("\n")}\n${
    source.slice(at).replaceAll("WARP_", "EMU_").replaceAll("#pragma unroll", "#pragma nounroll")
  }`;
}

/** A kernel of matrix units as one that any device runs. */
function emulated(source: string): string {
  if (source.includes("WARP_")) return emulatedWarps(source);
  if (source.includes("WG_")) return emulatedWarpgroups(source);
  if (!source.includes("sm[")) return withPacking(source);
  if (!source.includes("MMA_")) return source;
  const sm = /local uchar sm\[\d+\][^;]*;/.exec(source)![0];
  const groups = source.replace(sm, `${sm}\n  local uint ex[256 * ${WORDS}];`);
  const at = groups.indexOf("{\n") + 2;
  const lanes = "const int lid = get_local_id(0), lane = lid & 31;";
  const own = /\bint lid\b/.test(source) ? "" : lanes;
  return `${groups.slice(0, at)}${macros.join("\n")}\n${own}\n${
    groups.slice(at).replaceAll("MMA_", "EMU_")
  }`;
}

/**
 * Calls a function on the default device, as one that has what `change` says, with emulated units. It gets
 * the texts of all kernels that are launched.
 */
export function withEmulatedUnits(
  change: Partial<Target>,
  fn: (texts: string[]) => Promise<void>,
): Promise<void> {
  const { platformName, deviceName, clDevice } = manager.default("cl");
  const names = { platformName, deviceName, deviceType: "gpu", backend: "cl" } as const;
  const handle = new DeviceHandle(names, "cl", clDevice);
  return withEmulatedPrograms(() =>
    withDevice(handle, async () => {
      const backend = backendOf(handle) as OpenCLBackend, texts: string[] = [];
      const prepare = backend.prepare.bind(backend);
      Object.defineProperty(backend, "target", { value: { ...backend.target, ...change } });
      backend.prepare = (kernels) => {
        const launches = prepare(kernels);
        texts.push(...launches.map(({ source }) => source));
        return launches;
      };
      try {
        await fn(texts);
      } finally {
        backend.dispose();
        handle.queue!.release();
        handle.context!.release();
      }
    })
  );
}

/** Calls a function while all programs are built with emulated matrix units. */
async function withEmulatedPrograms(fn: () => Promise<void>): Promise<void> {
  const { build, kernel } = Programs.prototype;
  Programs.prototype.build = function (texts) {
    return build.call(
      this,
      texts.map(({ source, label }) => ({ source: emulated(source), label })),
    );
  };
  Programs.prototype.kernel = function (source) {
    return kernel.call(this, emulated(source));
  };
  try {
    await withoutOptimizing(fn);
  } finally {
    Object.assign(Programs.prototype, { build, kernel });
  }
}

/** Works computed on emulated units, and their least nearness to the built-in backend's value it must be. */
export interface EmulatedCase {
  readonly name: string;
  readonly dtype: DType;
  readonly make: (dtype: DType) => Tensor;
  /** The texts of the kernels that are built meanwhile. */
  readonly texts: string[];
  /** The text of a kernel in place of the units. */
  readonly sign: string;
  /** The relative error of all elements together. */
  readonly limit: number;
}

/** Asserts that the units compute the case, and compute it right. */
export async function holdsOnUnits(
  { name, dtype, make, texts, sign, limit }: EmulatedCase,
): Promise<void> {
  const wanted = await withDevice("cpu", () => make(dtype).cast("float32").toHost());
  texts.length = 0;
  const found = await make(dtype).cast("float32").toHost();
  assert(texts.some((text) => text.includes(sign)), `${name} is for the units`);
  let squares = 0, total = 0;
  for (let i = 0; i < wanted.length; i++) {
    squares += (Number(found[i]) - Number(wanted[i])) ** 2;
    total += Number(wanted[i]) ** 2;
  }
  const error = Math.sqrt(squares / total);
  assert(error < limit, `${name} of ${dtype}: relative error ${error}`);
}
