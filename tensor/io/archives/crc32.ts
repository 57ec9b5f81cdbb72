/** CRC-32 of ZIP and PNG (ISO 3309, the polynomial 0xEDB88320 with its bits reversed). */

let tables: Uint32Array | null = null;

/** Four tables: the n-th says what a byte does that `n` others follow, so four are taken at a time. */
function makeTables(): Uint32Array {
  const made = new Uint32Array(4 * 256);
  for (let n = 0; n < 256; n++) {
    let crc = n;
    for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? 0xedb88320 ^ crc >>> 1 : crc >>> 1;
    made[n] = crc;
  }
  for (let n = 256; n < made.length; n++) {
    made[n] = made[n - 256]! >>> 8 ^ made[made[n - 256]! & 255]!;
  }
  return made;
}

/**
 * The checksum of `bytes`.
 *
 * @param bytes What is summed up.
 * @param former The checksum of the bytes before them.
 */
export function crc32(bytes: Uint8Array, former = 0): number {
  const t = tables ??= makeTables();
  let crc = ~former, at = 0;
  for (; at + 4 <= bytes.length; at += 4) {
    crc ^= bytes[at]! | bytes[at + 1]! << 8 | bytes[at + 2]! << 16 | bytes[at + 3]! << 24;
    crc = t[768 + (crc & 255)]! ^ t[512 + (crc >>> 8 & 255)]! ^ t[256 + (crc >>> 16 & 255)]! ^
      t[crc >>> 24]!;
  }
  for (; at < bytes.length; at++) crc = crc >>> 8 ^ t[(crc ^ bytes[at]!) & 255]!;
  return ~crc >>> 0;
}
