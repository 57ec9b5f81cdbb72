import { assert, assertEquals, assertThrows } from "@std/assert";
import fc from "fast-check";
import { FileFormatError } from "../../../tensor/io/core/file_format_error.ts";
import type { HostArray } from "../../../tensor/io/core/host_array.ts";
import { decodeSafetensors, encodeSafetensors } from "../../../tensor/io/safetensors_format.ts";
import { assertHolds, expectedArrays, readFixture } from "./fixtures.ts";
import { hostArray, testDamage } from "./arbitraries.ts";

const allTypes = readFixture("all_types.safetensors");

Deno.test("decodeSafetensors reads every dtype that the project's own package writes", () => {
  const { arrays, metadata } = decodeSafetensors(allTypes);
  const expected = expectedArrays("all_types.safetensors");
  assertEquals(Object.keys(arrays).sort(), Object.keys(expected).sort());
  for (const [name, array] of Object.entries(arrays)) assertHolds(array, expected[name]!, name);
  assertEquals({ ...metadata }, { format: "np", note: "von Hand" });
  const types = Object.entries(arrays).map(([name, { dtype }]) => [name, dtype as string]);
  assertEquals(Object.fromEntries(types), {
    ...{ "model.weight": "float32", "model.bias": "float16", brain: "bfloat16", none: "float32" },
    ...{ double: "float64", steps: "int64", ids: "int32", bytes: "uint8", mask: "bool" },
    ...{ small: "int8", 'ünïcode "name"': "float32" },
  });
});

Deno.test("encodeSafetensors writes byte for byte what the project's own package wrote", () => {
  const { arrays, metadata } = decodeSafetensors(allTypes);
  const ours = encodeSafetensors(arrays, metadata);
  const back = decodeSafetensors(ours).arrays;
  assertEquals(back, arrays);
  const headerOf = (bytes: Uint8Array) => {
    const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
    assertEquals(length % 8, 0, "the data is aligned");
    return JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  };
  const [mine, theirs] = [headerOf(ours), headerOf(allTypes)];
  for (const name of Object.keys(arrays)) {
    assertEquals(mine[name].dtype, theirs[name].dtype);
    assertEquals(mine[name].shape, theirs[name].shape);
  }
  assertEquals(readFixture("no_tensors.safetensors"), encodeSafetensors({}));
});

Deno.test("encodeSafetensors keeps the order of names and aligns every tensor", () => {
  const arrays: Record<string, HostArray> = {
    flags: { data: Uint8Array.of(1, 0, 1), shape: [3], dtype: "bool" },
    half: { data: Float16Array.of(1.5), shape: [1], dtype: "float16" },
    weight: { data: Float32Array.of(1, 2), shape: [2, 1], dtype: "float32" },
    double: { data: Float64Array.of(3), shape: [], dtype: "float64" },
  };
  const bytes = encodeSafetensors(arrays);
  const length = Number(new DataView(bytes.buffer).getBigUint64(0, true));
  const header = JSON.parse(new TextDecoder().decode(bytes.subarray(8, 8 + length)));
  assertEquals(Object.keys(header), Object.keys(arrays));
  for (const [name, { data }] of Object.entries(arrays)) {
    assertEquals(header[name].data_offsets[0] % data.BYTES_PER_ELEMENT, 0, name);
  }
  assertEquals(Object.keys(decodeSafetensors(bytes).arrays), Object.keys(arrays));
});

/** Any code point; fast-check's own unit of that kind lists a million of them first. */
const codePoint = fc.integer({ min: 0, max: 0x10ffff }).map(
  (code) => String.fromCodePoint(code),
  (text) => String(text).codePointAt(0)!,
);

Deno.test("encodeSafetensors and decodeSafetensors are inverse", () => {
  const names = fc.string({ unit: codePoint }).filter((name) => name !== "__metadata__");
  fc.assert(fc.property(fc.dictionary(names, hostArray()), (drawn) => {
    // JSON has no lone surrogates, so such names cannot come back as they were.
    const entries = Object.entries(drawn).filter(([name]) => name.isWellFormed());
    const arrays = Object.fromEntries(entries);
    assertEquals(decodeSafetensors(encodeSafetensors(arrays)).arrays, arrays);
  }));
});

Deno.test("a tensor may be named __proto__ without harm", () => {
  const arrays = Object.fromEntries([
    ["__proto__", { data: Float32Array.of(1), shape: [1], dtype: "float32" }],
  ]) as Record<string, HostArray>;
  const back = decodeSafetensors(encodeSafetensors(arrays)).arrays;
  assertEquals(Object.keys(back), ["__proto__"]);
  assertEquals(Object.getPrototypeOf(back), Object.prototype);
});

Deno.test("encodeSafetensors refuses the name that the format keeps, and unfilled shapes", () => {
  const one = { data: Float32Array.of(1), shape: [1], dtype: "float32" } as const;
  assertThrows(() => encodeSafetensors({ __metadata__: one }), RangeError, "__metadata__");
  const w = { ...one, shape: [2] }, says = 'tensor "w": 1 values do not fill [2]';
  assertThrows(() => encodeSafetensors({ w }), RangeError, says);
});

function file(header: unknown, dataBytes = 0, claimed?: bigint): Uint8Array {
  const text = typeof header === "string" ? header : JSON.stringify(header);
  const json = new TextEncoder().encode(text);
  const bytes = new Uint8Array(8 + json.length + dataBytes);
  new DataView(bytes.buffer).setBigUint64(0, claimed ?? BigInt(json.length), true);
  bytes.set(json, 8);
  return bytes;
}

function one(entry: Record<string, unknown>, dataBytes = 8): Uint8Array {
  return file({ w: { dtype: "F32", shape: [2], data_offsets: [0, 8], ...entry } }, dataBytes);
}

const [huge, hidden] = [[2 ** 40, 2 ** 40], [0, 2 ** 40, 2 ** 40]];
const bytes = (from: number) => ({ dtype: "U8", shape: [4], data_offsets: [from, from + 4] });

const refused: Record<string, [bytes: Uint8Array, says: string]> = {
  "nothing": [new Uint8Array(), "at least 8 bytes: this one has 0"],
  "a header of 2^63 bytes": [
    file("{}", 0, 2n ** 63n),
    "claims 9223372036854775808 bytes: at most 2 fit",
  ],
  "a header one byte too long": [file("{}", 0, 3n), "claims 3 bytes"],
  "a header that is no JSON": [file("{not json"), "not JSON"],
  "a header that is no UTF-8": [Uint8Array.of(2, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xfe), "not JSON"],
  "a header that is a list": [file([]), "not a JSON object"],
  "metadata that is no text": [file({ __metadata__: { a: 1 } }), "__metadata__"],
  "an entry that is no object": [file({ w: null }), '"w" is not described'],
  "an unknown dtype": [one({ dtype: "C64" }), 'dtype "C64": netcl reads BOOL'],
  "a dtype named like a method": [one({ dtype: "toString" }), "netcl reads"],
  "a negative axis": [one({ shape: [-2] }), "no valid shape: got [-2]"],
  "a fractional axis": [one({ shape: [0.5] }), "no valid shape"],
  "a shape that overflows": [one({ shape: huge, data_offsets: [0, 0] }, 0), "more than 2^53"],
  "an overflow hidden behind 0": [
    one({ shape: hidden, data_offsets: [0, 0] }, 0),
    "more than 2^53",
  ],
  "a size that is not its shape's": [one({ shape: [3] }), "takes 12 bytes"],
  "offsets the wrong way": [one({ data_offsets: [8, 0] }), "hold -8"],
  "negative offsets": [one({ data_offsets: [-8, 0] }), "no valid data_offsets"],
  "three offsets": [one({ data_offsets: [0, 8, 16] }), "no valid data_offsets"],
  "a hole at the start": [one({ data_offsets: [4, 12] }, 12), "begins at byte 4: expected at 0"],
  "bytes that belong to nothing": [one({}, 9), "take 8 bytes: 9 follow"],
  "data that is cut": [one({}, 7), "take 8 bytes: 7 follow"],
  "tensors that overlap": [
    file({ a: bytes(0), b: bytes(2) }, 6),
    '"b" begins at byte 2: expected at 4',
  ],
  "a dtype as long as the file": [one({ dtype: "x".repeat(10_000) }), "…"],
};

for (const [what, [bytes, says]] of Object.entries(refused)) {
  Deno.test(`decodeSafetensors refuses ${what}`, () => {
    const { message } = assertThrows(() => decodeSafetensors(bytes), FileFormatError, says);
    assert(message.length < 300, "the message is short however long the file is");
  });
}

const random = fc.uint8Array({ maxLength: 40 });
const headers = fc.json({ maxDepth: 4 }).map((json) => file(json, 4) as Uint8Array<ArrayBuffer>);
testDamage("decodeSafetensors", () => [allTypes], decodeSafetensors, 1000, random, headers);

Deno.test("decodeSafetensors finds every way of cutting a file short", () => {
  for (let length = 0; length < allTypes.length; length++) {
    assertThrows(() => decodeSafetensors(allTypes.subarray(0, length)), FileFormatError);
  }
});
