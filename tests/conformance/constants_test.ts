// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/**
 * Operations on constants. A compiler computes with what it knows: PoCL 3.1 turned functions of a
 * constant NaN into undefined values and left out their stores, so that a result was whatever its
 * memory held before.
 */
import "../guarded.ts";
import { assert, assertEquals } from "@std/assert";
import { device, manager, realizeAll, Tensor, withDevice } from "../../mod.ts";
import { backendOf } from "../../backend/internal.ts";
import { GuardPool } from "../../memory/mod.ts";
import { primitives } from "../../backend/graph/primitives.ts";
import { testOnBackends } from "../opencl.ts";
import { differenceOf } from "./comparison.ts";

type Call = (x: Tensor) => Tensor;
type Methods = Readonly<Record<string, ((other?: Tensor) => Tensor) | undefined>>;

const numbers = [NaN, Infinity, -Infinity, 0, -0, -1, 3e38, -3e38];
const shape = [2, 3];

/** Every method of a tensor that is a primitive of that many operands. */
function methodsOf(arity: number): [name: string, call: Call][] {
  return Object.entries(primitives).flatMap(([name, p]): [string, Call][] => {
    const method = (Tensor.prototype as unknown as Methods)[name];
    if (p.arity !== arity || method === undefined) return [];
    return [[name, (x) => arity === 1 ? method.call(x)! : method.call(x, x)!]];
  });
}

const composed: [name: string, call: Call][] = [
  ["softmax", (x) => x.softmax(-1)],
  ["logSoftmax", (x) => x.logSoftmax(-1)],
  ["logSumExp", (x) => x.logSumExp(-1)],
  ["sum of exp", (x) => x.exp().sum(1)],
  ["exp of max", (x) => x.max(1).exp()],
  ["mean", (x) => x.mean()],
  ["variance", (x) => x.variance(0)],
  ["cumsum", (x) => x.cumsum(1)],
  ["argmax", (x) => x.argmax(1)],
  ["matmul", (x) => x.matmul(x.reshape([3, 2]))],
  ["floor of log", (x) => x.log().floor()],
  ["exp of difference", (x) => x.sub(x).exp()],
  ["gelu", (x) => x.gelu()],
  ["silu", (x) => x.silu()],
  ["elu", (x) => x.elu()],
  ["softplus", (x) => x.softplus()],
  ["round", (x) => x.round()],
  ["pad", (x) => x.pad([[1, 1], [0, 2]], NaN).exp()],
  ["concat", (x) => Tensor.concat([x, x.exp()], 0).floor()],
  ["where", (x) => Tensor.where(x.isNaN(), x, x.neg()).tanh()],
  ["halves", (x) => x.cast("float16").exp()],
];

/** As many values as a tensor has, of all numbers. */
function valuesOf(call: Call, make: (value: number) => Tensor): (number | bigint)[] {
  const results = numbers.map((value) => call(make(value)));
  realizeAll(results);
  return results.flatMap((result) => [...result.toHostSync()]);
}

const full = (value: number): Tensor => Tensor.full(shape, value);
/** Values that no compiler knows. */
const stored = (value: number): Tensor =>
  Tensor.fromHost(new Float32Array(6).fill(value), { shape });

for (
  const [kind, calls] of [["unary", methodsOf(1)], ["binary", methodsOf(2)], [
    "composed",
    composed,
  ]] as const
) {
  testOnBackends(`${kind}: what is computed of constants is written, and right`, (backend) => {
    assert(calls.length > 5, `${calls.length} operations were found`);
    const problems = calls.flatMap(([name, call]) => {
      const expected = withDevice("cpu", () => valuesOf(call, stored));
      const found = withDevice(backend, () => valuesOf(call, full));
      const text = differenceOf(found, expected.map(String), "float32", 2);
      return text === null ? [] : [`${name} ${text} of ${numbers}`];
    });
    assertEquals(problems, []);
  });
}

testOnBackends("the blocks of these tests are filled when they are lent", (backend) => {
  const { memory } = backendOf(manager.default(backend));
  assert(memory.pool instanceof GuardPool);
  using at = device(backend);
  using block = memory.allocate(64);
  const bytes = new Uint8Array(64);
  backendOf(at).readSync(block as never, bytes);
  assertEquals([...bytes], new Array(64).fill(0x5a));
});
