/**
 * Inline PTX for Hopper (PTX ISA 8.0, compute capability 9.0): barriers in local memory (mbarrier), copies of
 * whole tiles by tensor maps (TMA), and products by four warps together (wgmma).
 *
 * The OpenCL compiler writes PTX for sm_90 and refuses what only sm_90a has. Such instructions stand in a
 * comment of an `asm` text, whose operands it fills in all the same; {@linkcode liftInstructions} makes
 * instructions of them in the PTX, which is then loaded as a binary.
 */

/** Prefix of comments that hold instructions for sm_90a. */
export const LIFTED = "//@ ";

/** Stands for {@linkcode LIFTED} in a text that no assembler takes. */
const REFUSED = "/@ ";

/** A program that a driver builds only if instructions can be lifted in the PTX that it writes. */
export const LIFTED_PROBE = `kernel void lifted(global int *o) {
  asm volatile("${LIFTED}wgmma.fence.sync.aligned;" ::: "memory");
  o[get_global_id(0)] = 1;
}
`;

/** True for texts whose PTX must be changed before it is loaded: they say so, or call a helper that does. */
export function hasLifted(source: string): boolean {
  return source.includes(LIFTED) || /\bWG_(SCORES|ADD)/.test(source);
}

/** Stands in lifted instructions for the list of operands that {@linkcode liftedList} begins with. */
export const OPERANDS = "@all";

/**
 * Prefix of lifted instructions that use a list of operands often. NVIDIA's compiler takes 0.4 s
 * for a statement that names 64 of them in 24 instructions, 0.05 s for one that names them once.
 */
export function liftedList(count: number): string {
  const names = Array.from({ length: count }, (_, k) => `%${k}`);
  return `${OPERANDS}={${names.join(",")}}; `;
}

const listedLine = new RegExp(`^(.*)${OPERANDS}=(\\{[^}]*\\}); (.*)$`, "gm");

/** A text of which the compiler makes the same PTX, but the assembler refuses its first instruction. */
export const refuseInstructions = (source: string): string => source.replaceAll(LIFTED, REFUSED);

/** PTX with the instructions that stood in comments, for the device that has them. */
export function liftInstructions(ptx: string): string {
  return ptx
    .replaceAll(LIFTED, "")
    .replaceAll(REFUSED, "")
    .replace(
      listedLine,
      (_, before: string, list: string, text: string) => before + text.replaceAll(OPERANDS, list),
    )
    .replace(/\.target sm_90\b/, ".target sm_90a");
}

/** A copy by a tensor map of so many axes, of which the first is the innermost. */
function copy(rank: number): string {
  const axes = Array.from({ length: rank }, (_, axis) => `c${axis}`);
  const operands = axes.map((_, axis) => `%${axis + 2}`).join(",");
  return `#define WG_COPY${rank}(to, map, full, ${axes.join(", ")}) \\
  asm volatile("cp.async.bulk.tensor.${rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes " \\
  "[%0], [%1, {${operands}}], [%${rank + 2}];" \\
  :: "r"(to), "l"(map), ${axes.map((c) => `"r"(${c})`).join(", ")}, "r"(full) : "memory")`;
}

/** Sums of 64 rows and columns, of a work-item: four of 16 rows and 8 columns of its warp after the other. */
const SUMS = 32;
/** Steps of 16 terms of an attention's products: 64 features, or as many columns. */
const STEPS = 4;
/** Sixteens of bytes from one step to the next, where terms lie side by side, and where rows are terms. */
const NEXT = { sideBySide: 2, apart: 128 } as const;
/** Rows of 128 bytes, swizzled, in eights of 1024 bytes: what a descriptor says beside its address. */
const LAYOUT = { sideBySide: "0x4000004000010000UL", apart: "0x4000004002000000UL" } as const;

/** One product of a statement: its sums, and its left operand, whose rows are in a tile or in registers. */
interface ProductText {
  readonly sums: string;
  /** A tile of 64 rows; else four words of each step of terms. */
  readonly left: { readonly tile: string } | { readonly registers: string };
  readonly tile: string;
}

/**
 * A macro that makes products of 64 x 64 x 64 by a warpgroup, and waits for them: scores begin with 0 and are of
 * two tiles of rows; what is added has its left operand in registers, and a tile whose rows are terms.
 */
function products(name: string, type: string, count: 1 | 2, isAdded: boolean): string {
  const parts = Array.from({ length: count }, (_, k): ProductText => ({
    sums: `c${k}`,
    left: isAdded ? { registers: `a${k}` } : { tile: `a${k}` },
    tile: `b${k}`,
  }));
  const operand = (index: number): string => `%${index}`;
  const inputs = SUMS * count;
  const inputTexts: string[] = [];
  const input = (text: string): string => operand(inputs + inputTexts.push(text) - 1);
  const descriptor = (tile: string, layout: string): string =>
    `"l"(${layout} | (ulong)(((${tile}) & 0x3ffff) >> 4))`;
  const terms = isAdded ? "apart" : "sideBySide";
  const instructions = parts.flatMap(({ left, tile }, part) => {
    const sums = Array.from({ length: SUMS }, (_, j) => operand(part * SUMS + j)).join(",");
    const right = input(descriptor(tile, LAYOUT[terms]));
    const rows = "tile" in left ? input(descriptor(left.tile, LAYOUT.sideBySide)) : null;
    return Array.from({ length: STEPS }, (_, step) => {
      const moved = `add.s64 xb, ${right}, ${step * NEXT[terms]}; `;
      const keep = isAdded || step > 0 ? "all" : "none";
      if (rows !== null) {
        return `${moved}add.s64 xa, ${rows}, ${step * NEXT.sideBySide}; ` +
          `wgmma.mma_async.sync.aligned.m64n64k16.f32.${type}.${type} {${sums}}, xa, xb, ` +
          `${keep}, 1, 1, 0, 0;`;
      }
      const a = [0, 1, 2, 3].map((q) => input(`"r"((a${part})[${4 * step + q}])`)).join(",");
      return `${moved}wgmma.mma_async.sync.aligned.m64n64k16.f32.${type}.${type} {${sums}}, {${a}}, xb, ` +
        `${keep}, 1, 1, 1;`;
    });
  });
  const outputs = parts.flatMap(({ sums }) =>
    Array.from({ length: SUMS }, (_, j) => `"+f"((${sums})[${j}])`)
  );
  const text = "{.reg .pred all, none; .reg .b64 xa, xb; setp.eq.u32 all, 0, 0; " +
    `setp.ne.u32 none, 0, 0; wgmma.fence.sync.aligned; ${instructions.join(" ")} ` +
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0; }";
  const parameters = parts.flatMap((_, k) => [`c${k}`, `a${k}`, `b${k}`]).join(", ");
  return `#define ${name}(${parameters}) asm volatile("${LIFTED}${text}" \\\n  : ${
    outputs.join(", ")
  } \\\n  : ${inputTexts.join(", ")} : "memory")`;
}

/** The products of attention, by name. */
function attentionProducts(): Record<string, string> {
  const types = [["F16", "f16"], ["BF16", "bf16"]] as const;
  return Object.fromEntries(types.flatMap(([suffix, type]) =>
    ([1, 2] as const).flatMap((count) => {
      const [scores, add] = ["SCORES", "ADD"].map((kind) =>
        `WG_${kind}${count === 1 ? "" : count}_${suffix}`
      ) as [string, string];
      return [
        [scores, products(scores, type, count, false)],
        [add, products(add, type, count, true)],
      ];
    })
  ));
}

/** The helpers by name. */
export const warpgroupHelpers: Readonly<Record<string, string>> = {
  WG_INIT: `#define WG_INIT(at, count) \\
  asm volatile("mbarrier.init.shared.b64 [%0], %1;" :: "r"(at), "n"(count) : "memory")`,
  // What one work-item has initialized is seen by the others, and by copies.
  WG_INITIALIZED: `#define WG_INITIALIZED() asm volatile("fence.mbarrier_init.release.cluster; " \\
  "fence.proxy.async.shared::cta;" ::: "memory")`,
  WG_AWAIT: `#define WG_AWAIT(at, phase) \\
  asm volatile("{.reg .pred q; W: mbarrier.try_wait.parity.shared.b64 q, [%0], %1; @!q bra W; }" \\
  :: "r"(at), "r"(phase) : "memory")`,
  WG_ARRIVE: `#define WG_ARRIVE(at) \\
  asm volatile("mbarrier.arrive.shared.b64 _, [%0];" :: "r"(at) : "memory")`,
  // The barrier opens when so many bytes have been copied.
  WG_EXPECT: `#define WG_EXPECT(at, bytes) \\
  asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], %1;" :: "r"(at), "n"(bytes) : "memory")`,
  // Copies read the map that this work-item has written.
  WG_MAPPED: `#define WG_MAPPED(map) \\
  asm volatile("fence.proxy.tensormap::generic.release.gpu; " \\
  "fence.proxy.tensormap::generic.acquire.gpu [%0], 128;" :: "l"(map) : "memory")`,
  WG_COPY3: copy(3),
  WG_COPY4: copy(4),
  WG_COPY5: copy(5),
  // What work-items have written to local memory, by asynchronous copies too, is seen by products.
  WG_WRITTEN: `#define WG_WRITTEN() asm volatile("fence.proxy.async.shared::cta;" ::: "memory")`,
  ...attentionProducts(),
  WG_SYNC: `#define WG_SYNC() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")`,
};
