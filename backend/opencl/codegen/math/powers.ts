/** Powers of integers in 16 lanes. */
export const powers: Readonly<Record<string, string>> = {
  // By squares; a power below 0 is 0 but of 1 and -1.
  int_pow_16: `inline int16 int_pow_16(int16 a, int16 b) {
  const int16 unit = (a == 1) | (a == -1);
  int16 r = 1, left = select(b, select((int16)(0), b & 1, unit), b < 0);
  const int16 none = (b < 0) & ~unit;
  while (any_16(left)) {
    r = select(r, r * a, (left & 1) != 0);
    a *= a;
    left >>= 1;
  }
  return select(r, (int16)(0), none);
}`,
};
