import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { decodeNpy, encodeNpy } from "../../../../tensor/io/numpy/npy_format.ts";
import { assertHolds, expectedArray, fixtureNames, readFixture } from "../fixtures.ts";
import { hostArray, testDamage } from "../arbitraries.ts";

/** The type that a file is read in: uint16 in int32, which holds it. */
function typeOf(name: string): string {
  const [type] = name.split(/[._]/);
  return type === "uint16" ? "int32" : /^(u?int|float|bool)/.test(type!) ? type! : "float32";
}

for (const name of fixtureNames(".npy")) {
  Deno.test(`decodeNpy reads NumPy's ${name}`, () => {
    const array = decodeNpy(readFixture(name));
    assertHolds(array, expectedArray(name), name);
    assertEquals(array.dtype as string, typeOf(name));
  });
}

for (const name of ["float32", "float64", "float16", "int64", "uint8", "bool", "scalar", "empty"]) {
  Deno.test(`encodeNpy writes ${name}.npy byte for byte as NumPy does`, () => {
    const bytes = readFixture(`${name}.npy`);
    assertEquals(encodeNpy(decodeNpy(bytes)), bytes);
  });
}

Deno.test("encodeNpy and decodeNpy are inverse", () => {
  fc.assert(fc.property(hostArray(), (array) => {
    if (array.dtype === "bfloat16") {
      assertStringIncludes(assertThrows(() => encodeNpy(array), TypeError).message, "bfloat16");
    } else {
      assertEquals(decodeNpy(encodeNpy(array)), array);
    }
  }));
});

Deno.test("encodeNpy refuses values that do not fill the shape", () => {
  const array = { data: new Float32Array(3), shape: [2, 2], dtype: "float32" } as const;
  assertThrows(() => encodeNpy(array), RangeError, "3 values do not fill [2,2]");
});

Deno.test("decodeNpy says what to do with dtypes that it does not read", () => {
  for (const name of ["complex", "object", "structured"]) {
    const bytes = readFixture(`refused_${name}.npy`);
    assertThrows(() => decodeNpy(bytes), FileFormatError, ".astype()");
  }
});

function npyBytes(dict: string, body = new Uint8Array(), version = 1): Uint8Array {
  const text = new TextEncoder().encode(dict);
  const length = version === 1 ? [text.length & 255, text.length >> 8] : [text.length, 0, 0, 0];
  return Uint8Array.of(0x93, 78, 85, 77, 80, 89, version, 0, ...length, ...text, ...body);
}

/** A header, with its shape and type as Python writes them. */
const dict = (shape: string): string => `{'descr':'<f4','fortran_order':False,'shape':${shape}}`;
const text = (words: string) => new TextEncoder().encode(words);

const refused: Record<string, [bytes: Uint8Array, says: string]> = {
  "nothing": [new Uint8Array(), "no .npy file"],
  "another kind of file": [text("not numpy at all"), "no .npy"],
  "a version of the future": [npyBytes("{}", undefined, 9), "version is 9"],
  "a header beyond the end": [
    Uint8Array.of(0x93, 78, 85, 77, 80, 89, 2, 0, 255, 255, 255, 255),
    "claims 4294967295 bytes",
  ],
  "a header that is code": [npyBytes("__import__('os').system('true')"), "no Python literal"],
  "a header nested without end": [npyBytes("(".repeat(60_000)), "too deep"],
  "2^63 elements": [npyBytes(dict("(9223372036854775808,)")), "no valid shape"],
  "a product that overflows": [npyBytes(dict("(4294967296,4294967296,0)")), "more than 2^53"],
  "too many axes": [npyBytes(dict(`(${"1,".repeat(65)})`)), "65 axes"],
  "too few bytes": [npyBytes(dict("(2,)"), new Uint8Array(7)), "takes 8 bytes: 7 follow"],
  "too many bytes": [npyBytes(dict("(2,)"), new Uint8Array(9)), "takes 8 bytes: 9 follow"],
  "no order": [npyBytes("{'descr':'<f4','shape':(2,)}"), "fortran_order"],
  "a shape of text": [npyBytes(dict("'ab'")), "no valid shape"],
};

for (const [what, [bytes, says]] of Object.entries(refused)) {
  Deno.test(`decodeNpy refuses ${what}`, () => {
    const { message } = assertThrows(() => decodeNpy(bytes), FileFormatError, says);
    assert(message.length < 300, "the message is short however long the file is");
  });
}

testDamage("decodeNpy", () => fixtureNames(".npy").map(readFixture), decodeNpy, 1000);
