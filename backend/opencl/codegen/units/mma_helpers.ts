/**
 * Inline PTX for NVIDIA's matrix units (PTX ISA 7.0, compute capability 8.0): asynchronous copies to local
 * memory, `ldmatrix`, `mma.sync`. Addresses in local memory are 32 bits.
 */

const mma = (name: string, shape: string) =>
  `#define ${name}(c, a, b) asm volatile("mma.sync.aligned.${shape} " \\
  "{%0,%1,%2,%3},{%4,%5,%6,%7},{%8,%9},{%0,%1,%2,%3};" \\
  : "+f"((c)[0]), "+f"((c)[1]), "+f"((c)[2]), "+f"((c)[3]) \\
  : "r"((a)[0]), "r"((a)[1]), "r"((a)[2]), "r"((a)[3]), "r"((b)[0]), "r"((b)[1]))`;

const load = (name: string, how: string) =>
  `#define ${name}(r0, r1, r2, r3, at) \\
  asm volatile("ldmatrix.sync.aligned.m8n8.x4${how}.shared.b16 {%0,%1,%2,%3}, [%4];" \\
  : "=r"(r0), "=r"(r1), "=r"(r2), "=r"(r3) : "r"(at) : "memory")`;

const pair = (name: string, type: string) =>
  `inline uint ${name}(float x, float y) { uint r; asm("cvt.rn.${type}.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x)); return r; }`;

/** The helpers by name. */
export const mmaHelpers: Readonly<Record<string, string>> = {
  // \`count\` of the 16 bytes are read, the rest are zeros.
  MMA_COPY16: `#define MMA_COPY16(to, from, count) \\
  asm volatile("cp.async.cg.shared.global.L2::128B [%0], [%1], 16, %2;" \\
  :: "r"(to), "l"(from), "r"(count) : "memory")`,
  MMA_COPY4: `#define MMA_COPY4(to, from, count) \\
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" \\
  :: "r"(to), "l"(from), "r"(count) : "memory")`,
  MMA_PUT: `#define MMA_PUT(to, v) asm volatile("st.shared.v4.b32 [%0], {%1,%2,%3,%4};" \\
  :: "r"(to), "r"((v).x), "r"((v).y), "r"((v).z), "r"((v).w) : "memory")`,
  MMA_COMMIT: `#define MMA_COMMIT() asm volatile("cp.async.commit_group;" ::: "memory")`,
  MMA_WAIT: `#define MMA_WAIT(n) asm volatile("cp.async.wait_group %0;" :: "n"(n) : "memory")`,
  MMA_LOAD4: load("MMA_LOAD4", ""),
  MMA_LOAD4T: load("MMA_LOAD4T", ".trans"),
  MMA_LOAD1: `#define MMA_LOAD1(r, at) \\
  asm volatile("ld.shared.b32 %0, [%1];" : "=r"(r) : "r"(at) : "memory")`,
  MMA_F16: mma("MMA_F16", "m16n8k16.row.col.f32.f16.f16.f32"),
  MMA_BF16: mma("MMA_BF16", "m16n8k16.row.col.f32.bf16.bf16.f32"),
  // The first of the two is in the low half.
  MMA_PACK_F16:
    `#define MMA_PACK_F16(r, x, y) asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x))`,
  MMA_PACK_BF16:
    `#define MMA_PACK_BF16(r, x, y) asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(r) : "f"(y), "f"(x))`,
  // The same as a value.
  MMA_PAIR_F16: pair("MMA_PAIR_F16", "f16x2"),
  MMA_PAIR_BF16: pair("MMA_PAIR_BF16", "bf16x2"),
  MMA_EXP2:
    `inline float MMA_EXP2(float x) { float r; asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(r) : "f"(x)); return r; }`,
  MMA_TF32: mma("MMA_TF32", "m16n8k8.row.col.f32.tf32.tf32.f32"),
  MMA_ROUND: `#define MMA_ROUND(v) asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(v) : "f"(as_float(v)))`,
  // Infinities leave NaN, and what rounds to infinity does: such results are computed in another way.
  MMA_SPLIT: `#define MMA_SPLIT(v, rest) { \\
  uint high_, low_; \\
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(high_) : "f"(as_float(v))); \\
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(low_) : "f"(as_float(v) - as_float(high_))); \\
  v = high_; rest = low_; }`,
};
