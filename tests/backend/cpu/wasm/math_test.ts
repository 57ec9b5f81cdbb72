import { assert, assertEquals } from "@std/assert";
import { erf, floatMod, philox, power } from "../../../../backend/graph/scalar.ts";
import { manualSeed, randomState, Tensor, withDevice } from "../../../../mod.ts";
import { compute, reference, wasmBackend } from "../strategies.ts";
import { testOnCPU } from "../../../opencl.ts";

/** The function in doubles, where it is tried, and units in the last place that it may be off. */
const functions = {
  exp: [Math.exp, -86, 88.7, 2.5],
  exp2: [(x) => 2 ** x, -149, 127.9, 1],
  expm1: [Math.expm1, -5, 88.7, 2],
  log: [Math.log, 1e-40, 10, 1.5],
  log2: [Math.log2, 1e-40, 10, 1],
  log10: [Math.log10, 1e-40, 10, 1],
  log1p: [Math.log1p, -0.99, 5, 3],
  sin: [Math.sin, -50_000, 50_000, 2.5],
  cos: [Math.cos, -50_000, 50_000, 2.5],
  tan: [Math.tan, -50_000, 50_000, 4],
  asin: [Math.asin, -1, 1, 3],
  acos: [Math.acos, -1, 1, 2],
  atan: [Math.atan, -9, 9, 3],
  sinh: [Math.sinh, -89.4, 89.4, 3],
  cosh: [Math.cosh, -89.4, 89.4, 3],
  tanh: [Math.tanh, -12, 12, 3],
  asinh: [Math.asinh, -9, 9, 3],
  acosh: [Math.acosh, 1, 9, 4],
  atanh: [Math.atanh, -1, 1, 4],
  sigmoid: [(x) => 1 / (1 + Math.exp(-x)), -30, 30, 4],
  erf: [erf, -5, 5, 1.5],
  sqrt: [Math.sqrt, 0, 100, 0.5],
} satisfies Readonly<
  Record<string, readonly [(x: number) => number, low: number, high: number, units: number]>
>;
type Name = keyof typeof functions;

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
    const count = 20_001;
    for (const scale of [1, 1e-3]) {
      const from = Float32Array.from(
        { length: count },
        (_, k) => scale * (low + (high - low) * k / (count - 1)),
      );
      values(name as Name, from).forEach((found, k) => {
        const wanted = exact(from[k]!);
        if (found === wanted || Number.isNaN(wanted) && Number.isNaN(found)) return;
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

type Binary = readonly [
  name: "pow" | "atan2" | "remainder",
  exact: (x: number, y: number) => number,
];
const binaries: readonly Binary[] = [
  ["pow", power],
  ["atan2", Math.atan2],
  ["remainder", floatMod],
];

/** Pairs of floats of all sizes and signs; some are whole, some zero, infinite or NaN. */
function pairs(count: number): [Float32Array<ArrayBuffer>, Float32Array<ArrayBuffer>] {
  const special = [0, -0, 1, -1, 2, 3, -3, 0.5, Infinity, -Infinity, NaN, 1e-45, 3.4e38];
  let state = 1;
  const next = (): number => (state = Math.imul(state, 1664525) + 1013904223 >>> 0) / 2 ** 32;
  const bits = new Int32Array(1), float = new Float32Array(bits.buffer);
  const draw = (): number => {
    const kind = next();
    if (kind < 0.2) return special[Math.floor(next() * special.length)]!;
    if (kind < 0.4) return Math.round(next() * 40 - 20);
    if (kind < 0.7) return next() * 6 - 3;
    bits[0] = next() * 2 ** 32;
    return float[0]!;
  };
  const drawn = (): Float32Array<ArrayBuffer> => Float32Array.from({ length: count }, draw);
  return [drawn(), drawn()];
}

for (const [name, exact] of binaries) {
  Deno.test(`${name} of any two floats is that of doubles, to 3 units in the last place`, () => {
    const [x, y] = pairs(40_001);
    const found = withDevice("cpu", () => {
      using result = Tensor.fromHost(x)[name](Tensor.fromHost(y));
      return compute(wasmBackend, result) as number[];
    });
    found.forEach((value, k) => {
      const wanted = exact(x[k]!, y[k]!), rounded = Math.fround(wanted);
      const most = name === "remainder" ? 0.5 : 3;
      const isClose = Math.abs(value - wanted) <= most * lastPlace(wanted);
      assert(
        isClose || Object.is(value, rounded),
        `${name}(${x[k]}, ${y[k]}): ${value}, ${wanted}`,
      );
    });
  });
}

Deno.test("huge angles are reduced exactly", () => {
  const from = Float32Array.from(
    { length: 20_000 },
    (_, k) => (k % 2 ? -1 : 1) * 2 ** (k * 7919 % 128) * (1 + k / 20_011),
  );
  for (const name of ["sin", "cos", "tan"] as const) {
    values(name, from).forEach((found, k) => {
      const wanted = Math[name](from[k]!);
      const off = Math.abs(found - wanted) / lastPlace(wanted);
      assert(off <= 4, `${name}(${from[k]}) is ${found}, not ${wanted}: ${off} units off`);
    });
  }
});

testOnCPU("random numbers in vectors are those of the scalar generator, wherever they are", () => {
  manualSeed(-77);
  const { seed } = randomState();
  const drawn = [Tensor.rand([7, 1003]), Tensor.rand([7, 1003]), Tensor.rand([7, 1003])];
  const readers: ((x: Tensor) => Tensor)[] = [
    (x) => x.mul(1),
    (x) => x.transpose().mul(1),
    (x) => x.slice([1, 6, 2], [3, 900]).mul(1),
  ];
  drawn.forEach((x, stream) => {
    using all = x.reshape([-1]).mul(1);
    (compute(wasmBackend, all) as number[]).forEach((found, k) => {
      assertEquals(found, philox(k, seed, stream));
    });
    for (const read of readers) {
      using part = read(x), same = read(x);
      assertEquals(compute(wasmBackend, part), compute(reference, same));
    }
  });
});

Deno.test("exponentials and logarithms of doubles are those of doubles", () => {
  const from = Float64Array.from({ length: 10_001 }, (_, k) => (k - 5000) / 7.05);
  const special = [0, -0, 1, Infinity, -Infinity, NaN, 1e-310, 5e-324, 1.7e308, 709.7, -745, 710];
  const compared: readonly ["exp" | "log" | "sigmoid", (x: number) => number, number[]][] = [
    ["exp", Math.exp, [...from, ...special]],
    ["log", Math.log, [
      ...from.map((x) => Math.exp(x)),
      ...from.map((x) => 1 + x / 1e4),
      ...special,
    ]],
    ["sigmoid", (x) => 1 / (1 + Math.exp(-x)), [...from, ...special]],
  ];
  for (const [name, exact, numbers] of compared) {
    const found = withDevice("cpu", () => {
      using result = Tensor.fromHost(Float64Array.from(numbers))[name]();
      return compute(wasmBackend, result) as number[];
    });
    found.forEach((value, k) => {
      const wanted = exact(numbers[k]!);
      const isClose = Math.abs(value - wanted) <= Math.max(4e-16 * Math.abs(wanted), 1e-307);
      assert(isClose || Object.is(value, wanted), `${name}(${numbers[k]}): ${value}, ${wanted}`);
    });
  }
});
