/** Every operation of the conformance tables in forward mode and under vmap, beside reverse mode and single calls. */
import { assert } from "@std/assert";
import { func, type Tensor, Tensor as T } from "../../../mod.ts";
import { allCases, type Case, cotangent, decode, titleOf } from "../../conformance/fixture.ts";
import { apart, operations } from "../../conformance/operations.ts";
import { testOnCPU } from "../../opencl.ts";

/** Some cases of each operation with gradients, beside the places where there is none. */
const smooth = allCases().filter((c) =>
  c.grads !== undefined && !apart.has(titleOf(c)) && !/edges|special|at 0/.test(c.variant) &&
  c.outputs.some(({ dtype }) => dtype === "float64")
);
const cases = [...Map.groupBy(smooth, ({ op }) => op).values()]
  .flatMap((found) => found.slice(0, 3));

function inputsOf(c: Case): Tensor[] {
  return c.inputs.map(({ shape, dtype, data }) => {
    const host = dtype === "int64" ? BigInt64Array.from(data.map(BigInt)) : data.map(decode);
    return T.fromHost(host, { shape, dtype });
  });
}

/** The operation as a function of its floating inputs, whose results are floating. */
function functionOf(c: Case, inputs: readonly Tensor[]): (...floats: Tensor[]) => Tensor[] {
  return (...floats) => {
    const next = floats.values();
    const all = inputs.map((x) => x.dtype === "float64" ? next.next().value! : x);
    const found = operations[c.op]!.call(all, c.args);
    return (Array.isArray(found) ? found : [found]).filter((x) => x.dtype === "float64");
  };
}

function patternLike(x: Tensor, shift: number): Tensor {
  const values = cotangent(x.size + shift).slice(shift);
  return T.fromHost(values, { shape: x.shape, dtype: "float64" });
}

async function inner(a: readonly Tensor[], b: readonly Tensor[]): Promise<number> {
  let sum = 0;
  for (const [k, x] of a.entries()) sum += await x.mul(b[k]!).sum().item();
  return sum;
}

function isNear(a: number, b: number): boolean {
  return Object.is(a, b) || Math.abs(a - b) <= 1e-9 * Math.max(1, Math.abs(a), Math.abs(b));
}

testOnCPU("jvp of every operation meets its vjp", async () => {
  const failures: string[] = [];
  for (const c of cases) {
    const inputs = inputsOf(c), floats = inputs.filter((x) => x.dtype === "float64");
    const f = functionOf(c, inputs), tangents = floats.map((x, k) => patternLike(x, k + 3));
    if (floats.length === 0) continue;
    const [outputs, changes] = func.jvp(f, floats, tangents);
    const seeds = outputs.map((out, k) => patternLike(out, k));
    const back = func.vjp(f, ...floats)[1](seeds);
    const [forward, reverse] = [await inner(changes, seeds), await inner(tangents, back)];
    if (!isNear(forward, reverse)) failures.push(`${titleOf(c)}: ${forward}, ${reverse}`);
  }
  assert(failures.length === 0, failures.join("\n"));
});

/** Operations whose results have a shape that depends on values, or that take no tensor. */
const unmapped = new Set(
  "maskedSelect nonzero unique indexPut repeatInterleave bincount".split(" "),
);

testOnCPU("vmap of every operation is the stack of single calls", async () => {
  const failures: string[] = [], warn = console.warn;
  // Each has a rule: none is looped.
  console.warn = (said: string) => void failures.push(said);
  for (const c of cases) {
    const inputs = inputsOf(c), floats = inputs.filter((x) => x.dtype === "float64");
    if (floats.length === 0 || unmapped.has(c.op)) continue;
    const f = functionOf(c, inputs), others = floats.map((x) => x.mul(0.5).realize());
    const batch = floats.map((x, k) => T.stack([x, others[k]!]));
    try {
      const found = func.vmap(f)(...batch), each = [f(...floats), f(...others)];
      for (const [k, x] of found.entries()) {
        const expected = T.stack(each.map((outs) => outs[k]!));
        if (!await x.allClose(expected, { rtol: 1e-9, atol: 1e-9, equalNan: true })) {
          failures.push(`${titleOf(c)}: result ${k}`);
        }
      }
    } catch (error) {
      failures.push(`${titleOf(c)}: ${(error as Error).message}`);
    }
  }
  console.warn = warn;
  assert(failures.length === 0, failures.join("\n"));
});
