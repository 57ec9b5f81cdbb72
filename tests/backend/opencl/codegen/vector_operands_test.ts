/** Vector functions of two operands: powers, remainders, quotients, angles. */
import { assert, assertEquals } from "@std/assert";
import { floatMod, power } from "../../../../backend/graph/scalar.ts";
import { device, noGrad, Tensor, withDevice } from "../../../../mod.ts";
import { testVectors } from "../../../opencl.ts";

type Numbers = Float32Array<ArrayBuffer>;
type Name = "pow" | "remainder" | "floorDivide" | "atan2";

/** By the remainder, as PyTorch has it. */
function floorDivide(x: number, y: number): number {
  if (y === 0) return x / y;
  const r = x % y, q = (x - r) / y - Number(r !== 0 && (r < 0) !== (y < 0));
  return q === 0 ? 0 * Math.sign(x / y) : Math.round(q);
}

const exact = { pow: power, remainder: floatMod, floorDivide, atan2: Math.atan2 };
/** Errors in units of the last place; quotients and remainders have none. */
const UNITS = { pow: 1, remainder: 0.5001, floorDivide: 0.5001, atan2: 2 };

const COUNT = 60_007;
let state = 1;
/** The same numbers in each run, from 0 to before 1. */
function next(): number {
  state = (state * 1103515245 + 12345) % 2 ** 31;
  return state / 2 ** 31;
}
function numbers(of: (k: number) => number): Numbers {
  return Float32Array.from({ length: COUNT }, (_, k) => of(k));
}
/** Numbers of all magnitudes and both signs. */
const any = (): number => (next() - 0.5) * 2 ** ((next() - 0.5) * 250);

function apply<T extends Numbers | Int32Array<ArrayBuffer>>(name: Name, x: T, y: T): T {
  return noGrad(() => {
    using a = Tensor.fromHost(x);
    using b = Tensor.fromHost(y);
    using c = a[name](b);
    return c.toHostSync() as T;
  });
}

function errorOf(got: number, wanted: number): number {
  const rounded = Math.fround(wanted);
  if (Object.is(got, rounded) || got === rounded) return 0;
  if (!Number.isFinite(rounded) || !Number.isFinite(got)) return Infinity;
  return Math.abs(got - wanted) /
    2 ** (Math.max(-126, Math.floor(Math.log2(Math.abs(wanted)))) - 23);
}

function agree(name: Name, x: Numbers, y: Numbers): void {
  using _device = device("cl");
  apply(name, x, y).forEach((got, k) => {
    const wanted = exact[name](x[k]!, y[k]!);
    const error = errorOf(got, wanted);
    assert(error <= UNITS[name], `${name}(${x[k]}, ${y[k]}) is ${got} instead of ${wanted}`);
  });
}

testVectors("powers of floats are rounded once, of all magnitudes", () => {
  const bases = numbers((k) => 2 ** ((k / COUNT - 0.5) * 290));
  const powers = bases.map((x) => (next() - 0.5) * 280 / Math.max(0.1, Math.abs(Math.log2(x))));
  agree("pow", bases, powers);
  agree("pow", numbers(() => 1 + (next() - 0.5) * 1e-3), numbers(() => (next() - 0.5) * 1e5));
  agree("pow", numbers(() => (next() - 0.5) * 20), numbers(() => Math.round((next() - 0.5) * 30)));
});

testVectors("remainders, quotients and angles have the values of doubles", () => {
  const [near, small, far, other] = [
    numbers(() => (next() - 0.5) * 2000),
    numbers(() => (next() - 0.5) * 3),
    numbers(any),
    numbers(any),
  ];
  for (const name of ["remainder", "floorDivide", "atan2"] as const) agree(name, near, small);
  for (const name of ["remainder", "atan2"] as const) agree(name, far, other);
});

testVectors("functions of two operands are IEEE's where one is no usual number", () => {
  const some = [0, 0.5, 1, 2, 3, 1e9, 1e38, 1e-45].flatMap((x) => [x, -x]);
  const odd = [NaN, Infinity, -Infinity, ...some];
  const pairs = odd.flatMap((x) => odd.map((y) => [x, y] as const));
  const [x, y] = [Float32Array.from(pairs, ([x]) => x), Float32Array.from(pairs, ([, y]) => y)];
  using _device = device("cl");
  for (const name of Object.keys(exact) as Name[]) {
    apply(name, x, y).forEach((got, k) => {
      const [a, b] = [x[k]!, y[k]!];
      // By infinity there is no remainder to go by: 0, or -1 below it.
      const byRest = name === "floorDivide" && Math.abs(b) === Infinity && Number.isFinite(a);
      const wanted = byRest ? (a === 0 || (a < 0) === (b < 0) ? 0 : -1) : exact[name](a, b);
      const error = errorOf(got, wanted);
      assert(error <= UNITS[name], `${name}(${a}, ${b}) is ${got} instead of ${wanted}`);
      if (got === 0 && !byRest) {
        assert(Object.is(got, Math.fround(wanted)), `${name}(${a}, ${b}): the sign of 0`);
      }
    });
  }
});

testVectors("quotients, remainders and powers of integers are right, the ends included", () => {
  const ends = [-(2 ** 31), 2 ** 31 - 1, 0, -1, 1];
  const whole = (k: number): number =>
    k % 7 === 0 ? ends[Math.floor(next() * 5)]! : Math.floor((next() - 0.5) * 2 ** (1 + k % 32));
  const x = Int32Array.from({ length: 4003 }, (_, k) => whole(k));
  const y = Int32Array.from({ length: 4003 }, (_, k) => whole(k * 5));
  const small = y.map((v) => v % 12);
  for (const name of ["floorDivide", "remainder", "pow"] as const) {
    const [got, wanted] = (["cl", "cpu"] as const).map((where) =>
      withDevice(where, () => apply(name, x, name === "pow" ? small : y))
    );
    assertEquals(got, wanted, name);
  }
});
