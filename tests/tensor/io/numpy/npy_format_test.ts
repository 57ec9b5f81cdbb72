import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import fc from "fast-check";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import { decodeNpy, encodeNpy } from "../../../../tensor/io/numpy/npy_format.ts";
import { assertHolds, expectedArray, fixtureNames, readFixture } from "../fixtures.ts";
import { assertOnlyFormatErrors, damaged, hostArray } from "../arbitraries.ts";

const dtypes: Record<string, string> = {
  "bool.npy": "bool",
  "uint8.npy": "uint8",
  "int8.npy": "int8",
  "int16.npy": "int16",
  "uint16.npy": "int32",
  "uint32.npy": "uint32",
  "int64.npy": "int64",
  "int64_big_endian.npy": "int64",
  "int32_column_major.npy": "int32",
  "float16.npy": "float16",
  "float64.npy": "float64",
};

for (const name of fixtureNames(".npy")) {
  Deno.test(`decodeNpy reads NumPy's ${name}`, () => {
    const array = decodeNpy(readFixture(name));
    assertHolds(array, expectedArray(name), name);
    assertEquals(array.dtype as string, dtypes[name] ?? "float32");
  });
}

for (const name of ["float32", "float64", "float16", "int64", "uint8", "bool", "scalar", "empty"]) {
  Deno.test(`encodeNpy writes ${name}.npy byte for byte as NumPy does`, () => {
    const bytes = readFixture(`${name}.npy`);
    assertEquals(encodeNpy(decodeNpy(bytes)), bytes);
  });
}

Deno.test("encodeNpy and decodeNpy are inverse", () => {
  fc.assert(
    fc.property(hostArray(), (array) => {
      if (array.dtype === "bfloat16") {
        assertStringIncludes(assertThrows(() => encodeNpy(array), TypeError).message, "bfloat16");
      } else {
        assertEquals(decodeNpy(encodeNpy(array)), array);
      }
    }),
  );
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

const refused: Record<string, { bytes: Uint8Array; says: string }> = {
  "nothing": { bytes: new Uint8Array(), says: "no .npy file" },
  "another kind of file": { bytes: new TextEncoder().encode("not numpy at all"), says: "no .npy" },
  "a version of the future": { bytes: npyBytes("{}", undefined, 9), says: "version is 9" },
  "a header beyond the end": {
    bytes: Uint8Array.of(0x93, 78, 85, 77, 80, 89, 2, 0, 255, 255, 255, 255),
    says: "claims 4294967295 bytes",
  },
  "a header that is code": {
    bytes: npyBytes("__import__('os').system('true')"),
    says: "no Python literal",
  },
  "a header nested without end": { bytes: npyBytes("(".repeat(60_000)), says: "too deep" },
  "2^63 elements": {
    bytes: npyBytes("{'descr':'<f4','fortran_order':False,'shape':(9223372036854775808,)}"),
    says: "no valid shape",
  },
  "a product that overflows": {
    bytes: npyBytes("{'descr':'<f4','fortran_order':False,'shape':(4294967296,4294967296,0)}"),
    says: "more than 2^53",
  },
  "too many axes": {
    bytes: npyBytes(`{'descr':'<f4','fortran_order':False,'shape':(${"1,".repeat(65)})}`),
    says: "65 axes",
  },
  "too few bytes": {
    bytes: npyBytes("{'descr':'<f4','fortran_order':False,'shape':(2,)}", new Uint8Array(7)),
    says: "takes 8 bytes: 7 follow",
  },
  "too many bytes": {
    bytes: npyBytes("{'descr':'<f4','fortran_order':False,'shape':(2,)}", new Uint8Array(9)),
    says: "takes 8 bytes: 9 follow",
  },
  "no order": { bytes: npyBytes("{'descr':'<f4','shape':(2,)}"), says: "fortran_order" },
  "a shape of text": {
    bytes: npyBytes("{'descr':'<f4','fortran_order':False,'shape':'ab'}"),
    says: "no valid shape",
  },
};

for (const [what, { bytes, says }] of Object.entries(refused)) {
  Deno.test(`decodeNpy refuses ${what}`, () => {
    const { message } = assertThrows(() => decodeNpy(bytes), FileFormatError, says);
    assert(message.length < 300, "the message is short however long the file is");
  });
}

Deno.test("decodeNpy answers any damage with a FileFormatError or an array", () => {
  const files = fixtureNames(".npy").map(readFixture);
  fc.assert(
    fc.property(fc.oneof(fc.uint8Array(), damaged(files)), (bytes) => {
      assertOnlyFormatErrors(() => decodeNpy(bytes));
    }),
    { numRuns: 1000 },
  );
});
