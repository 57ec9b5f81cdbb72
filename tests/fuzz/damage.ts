/**
 * Damage to files: bytes that are changed, cut, moved, doubled or exchanged, lengths at their extremes, and
 * the same within the parts of a format (entries, chunks, fields, words), which are then put together as a
 * whole file again, with their lengths and checksums.
 */
/** The contents of a file. */
export type Bytes = Uint8Array<ArrayBuffer>;

/** Random numbers from a seed: the same seed gives the same damage. */
export class Chance {
  #state: number;

  constructor(seed: number) {
    this.#state = seed | 0;
  }

  /** A whole number below `n`, by the generator mulberry32. */
  below(n: number): number {
    this.#state = this.#state + 0x6d2b79f5 | 0;
    let t = Math.imul(this.#state ^ this.#state >>> 15, this.#state | 1);
    t ^= t + Math.imul(t ^ t >>> 7, t | 61);
    return Math.floor(((t ^ t >>> 14) >>> 0) / 2 ** 32 * n);
  }

  /** One of a list. */
  one<T>(list: readonly T[]): T {
    return list[this.below(list.length)]!;
  }
}

/** A way to damage bytes. */
export type Damage = (bytes: Bytes, chance: Chance) => Bytes;

/** Bytes one after the other. */
export function joined(parts: readonly Uint8Array[]): Bytes {
  const bytes = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    bytes.set(part, at);
    at += part.length;
  }
  return bytes;
}

/** Numbers at which lengths and places go wrong. */
export const extremes = [
  0n,
  1n,
  0x7fn,
  0xffn,
  0x7fffn,
  0xffffn,
  1n << 28n,
  (1n << 31n) - 1n,
  1n << 31n,
]
  .concat([(1n << 32n) - 1n, 1n << 32n, 1n << 53n, (1n << 63n) - 1n, 1n << 63n, (1n << 64n) - 1n]);

/** Half of the places are among the first and the last bytes, where lengths and types stand. */
function placeIn({ length }: Bytes, chance: Chance): number {
  const near = chance.below(Math.min(length, 64));
  return chance.one([near, length - 1 - near, chance.below(length), chance.below(length)]);
}

function rangeIn(bytes: Bytes, chance: Chance): Bytes {
  const from = placeIn(bytes, chance);
  return bytes.slice(from, from + chance.one([1, 2, 4, 8, 1 + chance.below(bytes.length)]));
}

const changes: readonly Damage[] = [
  (bytes, chance) => bytes.with(placeIn(bytes, chance), chance.below(256)),
  (bytes, chance) => {
    const at = placeIn(bytes, chance);
    return bytes.with(at, bytes[at]! ^ 1 << chance.below(8));
  },
  function writeExtreme(bytes, chance) {
    const width = chance.one([2, 4, 4, 8, 8]),
      copy = bytes.slice(),
      view = new DataView(copy.buffer);
    const own = [
      BigInt(bytes.length),
      BigInt(bytes.length + 1),
      BigInt(chance.below(bytes.length)),
    ];
    if (copy.length < width) return copy;
    const at = Math.min(placeIn(bytes, chance), copy.length - width),
      isLittle = chance.below(2) === 0;
    const value = chance.one([...extremes, ...own]);
    if (width === 8) view.setBigUint64(at, value, isLittle);
    else if (width === 4) view.setUint32(at, Number(value & 0xffffffffn), isLittle);
    else view.setUint16(at, Number(value & 0xffffn), isLittle);
    return copy;
  },
  (bytes, chance) => bytes.slice(0, placeIn(bytes, chance)),
  (bytes, chance) => joined([bytes, rangeIn(bytes, chance)]),
  function copyRange(bytes, chance) {
    const copy = bytes.slice(), range = rangeIn(bytes, chance);
    const at = placeIn(bytes, chance);
    copy.set(range.subarray(0, copy.length - at), at);
    return copy;
  },
  function insertRange(bytes, chance) {
    const at = placeIn(bytes, chance);
    return joined([bytes.subarray(0, at), rangeIn(bytes, chance), bytes.subarray(at)]);
  },
  function removeRange(bytes, chance) {
    const at = placeIn(bytes, chance), { length } = rangeIn(bytes, chance);
    return joined([bytes.subarray(0, at), bytes.subarray(at + length)]);
  },
];

/** A few changes of bytes, wherever. */
export const damageBytes: Damage = (bytes, chance) => {
  for (let k = 1 + chance.below(4); k > 0 && bytes.length > 0; k--) {
    bytes = chance.one(changes)(bytes, chance);
  }
  return bytes;
};

/** A format as a list of parts. */
export interface Structure<Part> {
  readonly parts: (bytes: Bytes) => Part[];
  readonly join: (parts: readonly Part[]) => Bytes;
  readonly damage: (part: Part, chance: Chance) => Part;
}

/** Times that a part is repeated: nested so deep, it must not fill the stack. */
export const MANY = 5000;

/** Damage of parts: one is changed, dropped, doubled, exchanged, put in place of another, or repeated. */
export function damageParts<Part>({ parts, join, damage }: Structure<Part>): Damage {
  const change = (list: Part[], chance: Chance): void => {
    const at = chance.below(list.length), other = chance.below(list.length), part = list[at]!;
    const kind = chance.below(12);
    if (kind === 0) list.splice(at, 1);
    else if (kind === 1) list.splice(other, 0, part);
    else if (kind === 2) [list[at], list[other]] = [list[other]!, part];
    else if (kind === 3) list[other] = part;
    else if (kind === 4 && chance.below(20) === 0) list.splice(at, 1, ...Array(MANY).fill(part));
    else list[at] = damage(part, chance);
  };
  return (bytes, chance) => {
    let list: Part[];
    try {
      list = parts(bytes);
    } catch {
      return damageBytes(bytes, chance); // Not of this form, as texts within others are at times.
    }
    for (let k = 1 + chance.below(3); k > 0 && list.length > 0; k--) change(list, chance);
    return join(list);
  };
}
