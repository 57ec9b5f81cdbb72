/**
 * A 64-bit hash of a text as 16 hexadecimal digits (two 32-bit FNV-1a lanes with different primes):
 * for names and cache keys, not against an adversary.
 */
export function hashText(text: string): string {
  let a = 0x811c9dc5, b = 0x1b873593;
  for (let k = 0; k < text.length; k++) {
    const code = text.charCodeAt(k);
    a = Math.imul(a ^ code, 0x01000193);
    b = Math.imul(b ^ code, 0x85ebca6b);
    b ^= b >>> 13;
  }
  const hex = (n: number): string => (n >>> 0).toString(16).padStart(8, "0");
  return hex(a) + hex(b);
}
