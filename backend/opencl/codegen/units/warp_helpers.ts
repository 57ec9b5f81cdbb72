/**
 * Inline PTX (ISA 6.0, compute capability 7.0) by which the 32 work-items of a warp read each other's values, and
 * by which what is read and written once does not stay in the caches.
 */

const shuffle = (T: string, constraint: string) =>
  `#define WARP_XOR_${T}(to, v, apart) \\
  asm volatile("shfl.sync.bfly.b32 %0, %1, %2, 0x1f, 0xffffffff;" \\
  : "=${constraint}"(to) : "${constraint}"(v), "r"(apart))`;

/** The helpers by name. */
export const warpHelpers: Readonly<Record<string, string>> = {
  // The value of the work-item whose number differs in the bits of `apart`.
  WARP_XOR_float: shuffle("float", "f"),
  WARP_XOR_int: shuffle("int", "r"),
  // The value of the work-item whose number is so much smaller; the first ones get their own.
  WARP_UP: `#define WARP_UP(to, v, apart) \\
  asm volatile("shfl.sync.up.b32 %0, %1, %2, 0, 0xffffffff;" : "=r"(to) : "r"(v), "r"(apart))`,
  // A bit of each work-item: whether its value is not 0.
  WARP_VOTE: `#define WARP_VOTE(to, v) \\
  asm volatile("{.reg .pred p; setp.ne.u32 p, %1, 0; vote.sync.ballot.b32 %0, p, 0xffffffff;}" \\
  : "=r"(to) : "r"(v))`,
  // Four floats at multiples of 16 bytes.
  STREAM_READ: `#define STREAM_READ(v, from) \\
  asm volatile("ld.global.cs.v4.f32 {%0,%1,%2,%3}, [%4];" \\
  : "=f"((v).x), "=f"((v).y), "=f"((v).z), "=f"((v).w) : "l"(from))`,
  STREAM_WRITE: `#define STREAM_WRITE(to, v) \\
  asm volatile("st.global.cs.v4.f32 [%0], {%1,%2,%3,%4};" \\
  :: "l"(to), "f"((v).x), "f"((v).y), "f"((v).z), "f"((v).w) : "memory")`,
  // Byte `at` of a word as a float: behind the bits of 2^23 it needs no conversion, which takes four times as long.
  byte_float: `#ifdef __NV_CL_C_VERSION
inline uint byte_bits(uint word, uint at) { uint r; asm("prmt.b32 %0, %1, %2, %3;" : "=r"(r) : "r"(word), "r"(0x4b000000u), "r"(0x7650u | at)); return r; }
#else
inline uint byte_bits(uint word, uint at) { return 0x4b000000u | (word >> 8 * at & 255u); }
#endif
inline float byte_float(uint word, uint at) { return as_float(byte_bits(word, at)) - 8388608.0f; }`,
  // What was written to local memory before is there for all of the warp.
  WARP_SYNC: `#define WARP_SYNC() asm volatile("bar.warp.sync 0xffffffff;" ::: "memory")`,
};
