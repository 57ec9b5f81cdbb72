/** Random numbers of 16 lanes: the counters of Philox. */
export const counters: Readonly<Record<string, string>> = {
  // Eight counters of Philox4x32-10 (see philox() for the scalar): a word is the low half of its lane. The
  // high half is what a product left there, and a product of words does not read it.
  philox_8: `inline uint8 philox_8(ulong8 index, uint seed, uint stream) {
  const ulong8 word = 0xffffffffUL;
  ulong8 x = index, y = stream, z = index >> 32, w = 0;
  ulong8 first = seed, second = 0x9E3779B9UL;
  for (int round = 0; round < 10; ++round) {
    const ulong8 p = (x & word) * 0xD2511F53UL, q = (z & word) * 0xCD9E8D57UL;
    x = (q >> 32) ^ y ^ first;
    z = (p >> 32) ^ w ^ second;
    y = q;
    w = p;
    first += 0x9E3779B9UL;
    second += 0xBB67AE85UL;
  }
  return convert_uint8(x);
}`,
  // The numbers of 16 counters, `step` apart.
  philox_16: `inline float16 philox_16(ulong index, ulong step, uint seed, uint stream) {
  const ulong8 low = (ulong8)(0, 1, 2, 3, 4, 5, 6, 7) * step + index, high = low + 8 * step;
  const uint16 bits = (uint16)(philox_8(low, seed, stream), philox_8(high, seed, stream)) >> 8;
  return convert_float16(as_int16(bits)) * 5.9604644775390625e-8f;
}`,
};
