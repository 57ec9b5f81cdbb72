/** The parts of formats: how a file is taken apart, and put together with its lengths and checksums. */
import {
  crc32,
  deflateRawSync,
  deflateSync,
  gunzipSync,
  gzipSync,
  inflateRawSync,
  inflateSync,
} from "node:zlib";
import {
  type Bytes,
  type Damage,
  damageBytes,
  damageParts,
  extremes,
  joined,
  MANY,
  type Structure,
} from "./damage.ts";

const text = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);
const bytesOf = (value: string): Bytes => new TextEncoder().encode(value);

const oddValues = ["null", "true", "false", "-1", "0", "1.5", "1e308", "1e999", "9007199254740993"]
  .concat([
    '""',
    "[]",
    "{}",
    '"__proto__"',
    '"constructor"',
    '"\\u0000"',
    "[[0]]",
    '{"a":1}',
    "67108864",
  ])
  .concat([
    "[".repeat(MANY) + "]".repeat(MANY),
    `"${"x".repeat(MANY)}"`,
    `[${"0,".repeat(MANY)}0]`,
  ]);

/** The words of JSON; a text that is JSON itself is damaged as such. */
export const json: Structure<string> = {
  parts: (bytes) =>
    text(bytes).match(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*|true|false|null|[[\]{},:]/g) ?? [],
  join: (parts) => bytesOf(parts.join("")),
  damage(word, chance) {
    if (!/^"\{/.test(word) || chance.below(8) === 0) return chance.one(oddValues);
    const inner = bytesOf(JSON.parse(word));
    return JSON.stringify(text(damageParts(json)(inner, chance)));
  },
};

/** The words of a table. */
export const table: Structure<string> = {
  parts: (bytes) => text(bytes).match(/[,;"\r\n]|[^,;"\r\n]+/g) ?? [],
  join: json.join,
  damage: (_, chance) =>
    chance.one([
      ",",
      '"',
      '""',
      "\r",
      "\n",
      "\r\n",
      "\0",
      "nan",
      "inf",
      "-inf",
      "1e999",
      "0x10",
      " ",
      "é",
    ]),
};

/** A safetensors file: its header is JSON behind a length. */
export const safetensors: Structure<Bytes> = {
  parts(bytes) {
    const length = new DataView(bytes.buffer, bytes.byteOffset).getUint32(0, true);
    return [bytes.slice(8, 8 + length), bytes.slice(8 + length)];
  },
  join([header = new Uint8Array(), ...rest]) {
    const length = new Uint8Array(BigUint64Array.of(BigInt(header.length)).buffer);
    return joined([length, header, ...rest]);
  },
  damage: (part, chance) => damageParts(json)(part, chance),
};

/** A compressed file. */
export const gzipped: Structure<Bytes> = {
  parts: (bytes) => [new Uint8Array(gunzipSync(bytes))],
  join: (parts) => new Uint8Array(gzipSync(joined(parts))),
  damage: damageBytes,
};

/** Blocks of one length, as those of a tar. */
export const blocks = (length: number): Structure<Bytes> => ({
  parts: (bytes) =>
    Array.from(
      { length: Math.ceil(bytes.length / length) },
      (_, k) => bytes.slice(k * length, (k + 1) * length),
    ),
  join: joined,
  damage: damageBytes,
});

/** The chunks of a PNG, with checksums; pixels are damaged when they are expanded. */
export const png: Structure<Bytes> = {
  parts(bytes) {
    const parts: Bytes[] = [], view = new DataView(bytes.buffer, bytes.byteOffset);
    for (let at = 8; at + 12 <= bytes.length;) {
      const length = view.getUint32(at);
      parts.push(bytes.slice(at + 4, at + 8 + length));
      at += 12 + length;
    }
    return parts;
  },
  join: (parts) =>
    joined([
      Uint8Array.of(0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a),
      ...parts.flatMap((part) => {
        const frame = new DataView(new ArrayBuffer(8));
        frame.setUint32(0, Math.max(part.length - 4, 0));
        frame.setUint32(4, crc32(part));
        return [new Uint8Array(frame.buffer, 0, 4), part, new Uint8Array(frame.buffer, 4)];
      }),
    ]),
  damage(part, chance) {
    const name = part.subarray(0, 4), body = part.slice(4);
    if (text(name) !== "IDAT" || chance.below(2) === 0) {
      return joined([name, damageBytes(body, chance)]);
    }
    try {
      return joined([name, deflateSync(damageBytes(new Uint8Array(inflateSync(body)), chance))]);
    } catch {
      return joined([name, damageBytes(body, chance)]); // Damaged already.
    }
  },
};

/** The chunks of a RIFF file, such as WAV and WebP. */
export const riff: Structure<Bytes> = {
  parts(bytes) {
    const parts = [bytes.slice(8, 12)], view = new DataView(bytes.buffer, bytes.byteOffset);
    for (let at = 12; at + 8 <= bytes.length;) {
      const length = view.getUint32(at + 4, true);
      parts.push(joined([bytes.subarray(at, at + 4), bytes.subarray(at + 8, at + 8 + length)]));
      at += 8 + length + length % 2;
    }
    return parts;
  },
  join([form = new Uint8Array(), ...chunks]) {
    const body = joined([
      form,
      ...chunks.flatMap((part) => {
        const length = new Uint8Array(Uint32Array.of(Math.max(part.length - 4, 0)).buffer);
        return [part.subarray(0, 4), length, part.subarray(4), new Uint8Array(part.length % 2)];
      }),
    ]);
    return joined([bytesOf("RIFF"), new Uint8Array(Uint32Array.of(body.length).buffer), body]);
  },
  damage: (part, chance) => joined([part.subarray(0, 4), damageBytes(part.slice(4), chance)]),
};

/** An entry of an archive; it is stored or deflated. */
type Entry = readonly [name: string, content: Bytes, method: 0 | 8];

/** The entries of a ZIP archive, with checksums; what is in them is damaged by `inner`. */
export function zip(inner: (name: string) => Damage = () => damageBytes): Structure<Entry> {
  return {
    parts(bytes) {
      const view = new DataView(bytes.buffer, bytes.byteOffset);
      let at = bytes.length - 22;
      while (view.getUint32(at, true) !== 0x06054b50) at--;
      const count = view.getUint16(at + 10, true);
      at = view.getUint32(at + 16, true);
      return Array.from({ length: count }, (): Entry => {
        const u16 = (k: number) => view.getUint16(k, true), start = view.getUint32(at + 42, true);
        const from = start + 30 + u16(start + 26) + u16(start + 28), begin = at + 46;
        const packed = bytes.slice(from, from + view.getUint32(at + 20, true));
        const method = u16(at + 10) as 0 | 8,
          content = method === 0 ? packed : inflateRawSync(packed);
        const name = text(bytes.subarray(begin, begin + u16(at + 28)));
        at = begin + u16(at + 28) + u16(at + 30) + u16(at + 32);
        return [name, new Uint8Array(content), method];
      });
    },
    join: zipOf,
    damage([name, content, method], chance) {
      const odd = [
        "",
        "../x",
        "data.pkl",
        name.toUpperCase(),
        `${name}/`,
        "byteorder",
        "__proto__",
      ];
      if (chance.below(8) === 0) return [chance.one(odd), content, method];
      return [name, inner(name)(content, chance), chance.one([0, 8])];
    },
  };
}

/** Little-endian fields, each a value and its bytes. */
function fields(...list: readonly (readonly [value: number, bytes: number])[]): Bytes {
  return Uint8Array.from(
    list.flatMap(([value, n]) => Array.from({ length: n }, (_, k) => value / 256 ** k & 255)),
  );
}

function zipOf(entries: readonly Entry[]): Bytes {
  const local: Uint8Array[] = [], directory: Uint8Array[] = [];
  let at = 0;
  for (const [name, content, method] of entries) {
    const packed = method === 8 ? deflateRawSync(content) : content, title = bytesOf(name);
    const same = [[20, 2], [0x800, 2], [method, 2], [0, 2], [0x21, 2], [
      crc32(content),
      4,
    ]] as const;
    const sizes = [[packed.length, 4], [content.length, 4], [title.length, 2], [0, 2]] as const;
    local.push(fields([0x04034b50, 4], ...same, ...sizes), title, packed);
    directory.push(
      fields([0x02014b50, 4], [20, 2], ...same, ...sizes, [0, 8], [0, 2], [at, 4]),
      title,
    );
    at += 30 + title.length + packed.length;
  }
  const { length } = joined(directory), count = entries.length;
  const end = fields([0x06054b50, 4], [0, 4], [count, 2], [count, 2], [length, 4], [at, 4], [0, 2]);
  return joined([...local, ...directory, end]);
}

/** A field of Protocol Buffers: its key, and its bytes without their length. */
type ProtoField = readonly [key: number, content: Bytes];

function varintOf(value: number): Bytes {
  const bytes: number[] = [];
  for (; value >= 128; value = Math.floor(value / 128)) bytes.push(value % 128 | 128);
  return Uint8Array.of(...bytes, value);
}

/** The fields of a message, with right lengths; messages in messages likewise. */
export const protobuf: Structure<ProtoField> = {
  parts(bytes) {
    let at = 0;
    const varint = (): number => {
      for (let value = 0, factor = 1;; factor *= 128) {
        if (at >= bytes.length) throw new RangeError("the message is cut");
        const byte = bytes[at++]!;
        value += byte % 128 * factor;
        if (byte < 128) return value;
      }
    };
    const fields: ProtoField[] = [];
    while (at < bytes.length) {
      const key = varint(), kind = key % 8, from = at;
      if (![0, 1, 2, 5].includes(kind) || key < 8) throw new RangeError("no message");
      const end = kind === 0
        ? (varint(), at)
        : kind === 2
        ? varint() + at
        : at + (kind === 1 ? 8 : 4);
      if (end > bytes.length) throw new RangeError("the message is cut");
      fields.push([key, bytes.slice(kind === 2 ? at : from, end)]);
      at = end;
    }
    return fields;
  },
  join: (parts) =>
    joined(parts.flatMap(([key, content]) => [
      varintOf(key),
      ...key % 8 === 2 ? [varintOf(content.length)] : [],
      content,
    ])),
  damage([key, content], chance) {
    if (key % 8 === 2 && chance.below(6) > 0) return [key, damageParts(protobuf)(content, chance)];
    if (key % 8 !== 0) return [key, damageBytes(content, chance)];
    if (chance.below(4) === 0) return [8 * (1 + chance.below(30)) + key % 8, content];
    const odd = [...extremes.map(Number), chance.below(40), chance.below(40)];
    return [key, varintOf(chance.one(odd))];
  },
};
