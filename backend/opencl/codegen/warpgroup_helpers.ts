/**
 * Inline PTX for Hopper (PTX ISA 8.0, compute capability 9.0): barriers in local memory (mbarrier), copies of
 * whole tiles by tensor maps (TMA), and products by four warps together (wgmma).
 *
 * The OpenCL compiler writes PTX for sm_90 and refuses what only sm_90a has. Such instructions stand in a
 * comment of an `asm` text, whose operands it fills in all the same; {@linkcode liftInstructions} makes
 * instructions of them in the PTX, which is then loaded as a binary.
 */

/** What the comments of instructions for sm_90a begin with. */
export const LIFTED = "//@ ";

/** A program that a driver builds only if instructions can be lifted in the PTX that it writes. */
export const LIFTED_PROBE = `kernel void lifted(global int *o) {
  asm volatile("${LIFTED}wgmma.fence.sync.aligned;" ::: "memory");
  o[get_global_id(0)] = 1;
}
`;

/** True for texts whose PTX must be changed before it is loaded. */
export function hasLifted(source: string): boolean {
  return source.includes(LIFTED);
}

/** PTX with the instructions that stood in comments, for the device that has them. */
export function liftInstructions(ptx: string): string {
  return ptx.replaceAll(LIFTED, "").replace(/\.target sm_90\b/, ".target sm_90a");
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
  WG_SYNC: `#define WG_SYNC() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")`,
};
