/** The error of the vector functions over all magnitudes, in units of the last place. */
import { assert, assertEquals } from "@std/assert";
import { erf, erfc } from "../../../../backend/graph/scalar.ts";
import { type BackendName, device, noGrad, Tensor } from "../../../../mod.ts";
import { isPoCL, testOpenCL, testVectors } from "../../../opencl.ts";

interface Row {
  readonly exact: (x: number) => number;
  /** Arguments of the function, by size. */
  readonly from: number;
  readonly to: number;
  readonly signed: boolean;
  /** The error that it may have, in units of the last place; 3 by default. */
  readonly units?: number;
}

const functions: Record<string, Row> = {
  exp: { exact: Math.exp, from: 1e-40, to: 110, signed: true },
  expm1: { exact: Math.expm1, from: 1e-38, to: 95, signed: true },
  exp2: { exact: (x) => 2 ** x, from: 1e-40, to: 155, signed: true },
  tanh: { exact: Math.tanh, from: 1e-38, to: 30, signed: true },
  erf: { exact: erf, from: 1e-37, to: 8, signed: true, units: 5 },
  sigmoid: { exact: (x) => 1 / (1 + Math.exp(-x)), from: 1e-38, to: 87, signed: true },
  log: { exact: Math.log, from: 1.5e-45, to: 3.4e38, signed: false },
  log2: { exact: Math.log2, from: 1.5e-45, to: 3.4e38, signed: false },
  log1p: { exact: Math.log1p, from: 1e-38, to: 3.4e38, signed: false },
  log10: { exact: Math.log10, from: 1.5e-45, to: 3.4e38, signed: false },
  // Beyond 1e8 the driver's own are used.
  sin: { exact: Math.sin, from: 1e-40, to: 1e9, signed: true },
  cos: { exact: Math.cos, from: 1e-40, to: 1e9, signed: true },
  tan: { exact: Math.tan, from: 1e-40, to: 1e9, signed: true },
  asin: { exact: Math.asin, from: 1e-40, to: 1, signed: true },
  acos: { exact: Math.acos, from: 1e-40, to: 1, signed: true },
  atan: { exact: Math.atan, from: 1e-40, to: 3e38, signed: true },
  sinh: { exact: Math.sinh, from: 1e-40, to: 92, signed: true },
  cosh: { exact: Math.cosh, from: 1e-40, to: 92, signed: true },
  asinh: { exact: Math.asinh, from: 1e-40, to: 3e38, signed: true },
  acosh: { exact: Math.acosh, from: 1, to: 3e38, signed: false },
  atanh: { exact: Math.atanh, from: 1e-40, to: 1, signed: true },
  erfc: { exact: erfc, from: 1e-40, to: 12, signed: true },
};

/** Numbers of evenly spaced bits, so that each power of two has as many. */
function magnitudes({ from, to, signed }: Row, count: number): Float32Array<ArrayBuffer> {
  const [low, high] = new Uint32Array(new Float32Array([from, to]).buffer);
  const bits = Uint32Array.from(
    { length: count },
    (_, k) => low! + Math.floor((high! - low!) * k / count) + (signed && k % 2 ? 0x80000000 : 0),
  );
  return new Float32Array(bits.buffer);
}

/** The distance of a result in units of the last place of the exact one. */
function error(got: number, exact: number): number {
  const rounded = Math.fround(exact);
  if (Object.is(got, rounded)) return 0;
  if (!Number.isFinite(rounded) || !Number.isFinite(got)) return Infinity;
  const exponent = Math.max(-126, Math.floor(Math.log2(Math.abs(exact))));
  return Math.abs(got - exact) / 2 ** (exponent - 23);
}

function apply(
  name: string,
  values: Float32Array<ArrayBuffer>,
  backend: BackendName = "cl",
): Float32Array<ArrayBuffer> {
  using _device = device(backend);
  return noGrad(() => {
    using x = Tensor.fromHost(values);
    using y = (x as unknown as Record<string, () => Tensor>)[name]!();
    return Float32Array.from(y.toHostSync("float32"));
  });
}

for (const [name, row] of Object.entries(functions)) {
  const { units = 3 } = row;
  testVectors(`${name} is within ${units} units of the last place`, () => {
    const values = magnitudes(row, 100_003);
    apply(name, values).forEach((got, k) => {
      const exact = row.exact(values[k]!);
      assert(error(got, exact) < units, `${name}(${values[k]}) is ${got} instead of ${exact}`);
    });
  });

  // It computes while PoCL's kernels are compiled.
  Deno.test(`${name} has the bits of the built-in backend`, { ignore: !isPoCL }, () => {
    const values = magnitudes(row, 100_003);
    const [here, there] = (["cl", "cpu"] as const).map((backend) => apply(name, values, backend));
    const at = here!.findIndex((value, k) => !Object.is(value, there![k]));
    assert(at < 0, `${name}(${values[at]}): ${here![at]} and ${there![at]}`);
  });
}

testVectors("vector functions are right where there is no number", () => {
  const odd = [NaN, Infinity, -Infinity, ...[0, 0.5, 1, 2, 3, 1e38, 1e-45].flatMap((x) => [x, -x])];
  const values = Float32Array.from([...odd, ...odd, ...odd, ...odd]);
  for (const [name, { exact, units = 3 }] of Object.entries(functions)) {
    const got = [...apply(name, values)];
    const wanted = [...values].map((x) => Math.fround(exact(x)));
    got.forEach((value, k) => {
      assert(
        Object.is(value, wanted[k]) || error(value, wanted[k]!) < units,
        `${name}(${values[k]}): ${value}`,
      );
    });
    const [first, second] = [0, odd.length].map((k) => got.slice(k, k + odd.length));
    assertEquals(second, first, "a value does not depend on its place");
  }
});

testOpenCL("a value does not depend on where its element stands", () => {
  const values = magnitudes(functions["exp"]!, 16 * 9 + 7);
  for (const name of ["exp", "tanh", "erf", "log1p"]) {
    const whole = apply(name, values);
    for (const start of [1, 5, 16]) {
      assertEquals(apply(name, values.slice(start)), whole.slice(start));
    }
  }
});

for (const name of ["exp", "sin", "cos", "tan"]) {
  testOpenCL(`${name} of a number does not depend on what stands beside it`, () => {
    const values = Float32Array.from({ length: 4096 }, (_, k) => (k - 2048) / 24);
    const alone = apply(name, values);
    for (const beside of [NaN, Infinity, -Infinity, 88.5, -95, 200, 3e9]) {
      const isOther = (k: number): boolean => k % 16 === 5;
      const mixed = apply(name, values.map((x, k) => isOther(k) ? beside : x));
      mixed.forEach((got, k) => {
        if (!isOther(k)) assertEquals(got, alone[k], `${name}(${values[k]}) beside ${beside}`);
      });
    }
  });
}

testOpenCL("erf is never beyond 1, so that 1 - erf has a logarithm", () => {
  const values = Float32Array.from({ length: 200_000 }, (_, k) => 2 + k / 100_000);
  for (const got of apply("erf", values)) assert(got <= 1);
});
