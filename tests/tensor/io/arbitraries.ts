// What property tests of the readers and writers draw: arrays of every dtype, and damaged files.
import fc from "fast-check";
import type { DType, TypedArray } from "../../../backend/mod.ts";
import { FileFormatError } from "../../../tensor/io/core/file_format_error.ts";
import { type Bytes, Chance, damageBytes } from "../../fuzz/damage.ts";
import type { HostArray } from "../../../tensor/io/core/host_array.ts";

type Draw = (minLength: number) => fc.Arbitrary<TypedArray>;

const values: Record<DType, Draw> = {
  float32: (n) => fc.float32Array({ minLength: n, maxLength: n }),
  float64: (n) => fc.float64Array({ minLength: n, maxLength: n }),
  float16: (n) => fc.float32Array({ minLength: n, maxLength: n }).map((a) => Float16Array.from(a)),
  bfloat16: (n) => fc.float32Array({ minLength: n, maxLength: n }).map(asBfloat16),
  int32: (n) => fc.int32Array({ minLength: n, maxLength: n }),
  int64: (n) => fc.bigInt64Array({ minLength: n, maxLength: n }),
  int16: (n) => fc.int16Array({ minLength: n, maxLength: n }),
  int8: (n) => fc.int8Array({ minLength: n, maxLength: n }),
  uint32: (n) => fc.uint32Array({ minLength: n, maxLength: n }),
  uint8: (n) => fc.uint8Array({ minLength: n, maxLength: n }),
  bool: (n) => fc.uint8Array({ minLength: n, maxLength: n, max: 1 }),
};

/** Cuts the lower halves off, which leaves numbers that bfloat16 holds exactly. */
function asBfloat16(data: Float32Array<ArrayBuffer>): Float32Array<ArrayBuffer> {
  const bits = new Uint32Array(data.buffer);
  bits.forEach((word, i) => bits[i] = Number.isNaN(data[i]) ? 0x7fc00000 : word & 0xffff0000);
  return data;
}

/** Arrays of every dtype, of up to three axes, scalars and empty ones too. */
export function hostArray(): fc.Arbitrary<HostArray> {
  const shapes = fc.array(fc.nat({ max: 4 }), { maxLength: 3 });
  return fc.tuple(shapes, fc.constantFrom(...Object.keys(values) as DType[])).chain(
    ([shape, dtype]) => {
      const size = shape.reduce((product, n) => product * n, 1);
      return values[dtype](size).map((data) => ({ data, shape, dtype }));
    },
  );
}

/** One of `files`, damaged. */
export function damaged(files: readonly Bytes[]): fc.Arbitrary<Bytes> {
  return fc.tuple(fc.constantFrom(...files), fc.integer())
    .map(([bytes, seed]) => damageBytes(bytes, new Chance(seed)));
}

/**
 * Tests that any bytes, and files that are damaged anywhere, are read or refused by a FileFormatError.
 *
 * @param files Files as they should be; a function is called when the test runs.
 * @param others Other bytes to try.
 */
export function testDamage(
  name: string,
  files: () => readonly Bytes[] | Promise<readonly Bytes[]>,
  read: (bytes: Bytes) => unknown,
  numRuns: number,
  ...others: fc.Arbitrary<Bytes>[]
): void {
  Deno.test(`${name} answers any damage with a FileFormatError or a value`, async () => {
    const bytes = fc.oneof(fc.uint8Array(), damaged(await files()), ...others);
    await fc.assert(fc.asyncProperty(bytes, (bytes) => assertOnlyFormatErrors(() => read(bytes))), {
      numRuns,
    });
  });
}

/** Fails if `read`, or what it promises, fails by anything but a FileFormatError. */
export async function assertOnlyFormatErrors(read: () => unknown): Promise<void> {
  try {
    await read();
  } catch (error) {
    if (!(error instanceof FileFormatError)) throw error;
  }
}
