import { assert } from "@std/assert";
import { erf } from "../../../../backend/cpu/script/scalar.ts";
import { Tensor, withDevice } from "../../../../mod.ts";
import { compute, wasmBackend } from "../strategies.ts";

type Name = "exp" | "expm1" | "log" | "log1p" | "tanh" | "sigmoid" | "erf" | "sqrt";

/** The function in doubles, where it is tried, and units in the last place that it may be off. */
const functions: Readonly<Record<Name, readonly [(x: number) => number, number, number, number]>> =
  {
    exp: [Math.exp, -86, 88.7, 2.5],
    expm1: [Math.expm1, -5, 88.7, 2],
    log: [Math.log, 1e-40, 10, 1.5],
    log1p: [Math.log1p, -0.99, 5, 3],
    tanh: [Math.tanh, -12, 12, 3],
    sigmoid: [(x) => 1 / (1 + Math.exp(-x)), -30, 30, 4],
    erf: [erf, -5, 5, 1.5],
    sqrt: [Math.sqrt, 0, 100, 0.5],
  };

function lastPlace(x: number): number {
  const float = Float32Array.of(Math.abs(x)), bits = new Int32Array(float.buffer);
  const value = float[0]!;
  bits[0]!++;
  return float[0]! - value;
}

function values(name: Name, from: Float32Array<ArrayBuffer>): number[] {
  return withDevice("cpu", () => {
    using result = Tensor.fromHost(from)[name]();
    return compute(wasmBackend, result) as number[];
  });
}

for (const [name, [exact, low, high, most]] of Object.entries(functions)) {
  Deno.test(`${name} of floats is within ${most} units in the last place`, () => {
    const count = 50_001;
    for (const scale of [1, 1e-3]) {
      const from = Float32Array.from(
        { length: count },
        (_, k) => scale * (low + (high - low) * k / (count - 1)),
      );
      values(name as Name, from).forEach((found, k) => {
        const wanted = exact(from[k]!);
        const off = Math.abs(found - wanted) / lastPlace(wanted);
        assert(off <= most, `${name}(${from[k]}) is ${found}, not ${wanted}: ${off} units off`);
      });
    }
  });
}

Deno.test("the functions at the edges of the floats", () => {
  const from = Float32Array.of(0, -0, Infinity, -Infinity, NaN, 1e-40, -1e-40, 3e38, -3e38, 89, -1);
  for (const [name, [exact]] of Object.entries(functions)) {
    values(name as Name, from).forEach((found, k) => {
      const wanted = Math.fround(exact(from[k]!));
      const same = Object.is(found, wanted) || Math.abs(found - wanted) <= 3e-7 * Math.abs(wanted);
      assert(same, `${name}(${from[k]}) is ${found}, not ${wanted}`);
    });
  }
});
