// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** Every gradient against PyTorch, against finite differences, and differentiated once more. */
import "../guarded.ts";
import { type BackendName, grad, realizeAll, Tensor } from "../../mod.ts";
import { testOnBackends, testOnCPU } from "../opencl.ts";
import { differenceOf } from "./comparison.ts";
import { allCases, assertNoProblems, type Case, cotangent, decode, titleOf } from "./fixture.ts";
import { type Laid, lay, type Layout, layouts } from "./layouts.ts";
import { apart, operations, sampleFor } from "./operations.ts";

const cases = allCases().filter((c) => c.grads && !apart.has(titleOf(c)));
/** Cases at points where a one-sided difference means nothing. */
const kinks = /edges|ties|zeros|at 0|origin|special|empty axis/;
const smooth = cases.filter((c) => !kinks.test(c.variant) && c.op !== "remainder");

function resultsOf(c: Case, inputs: readonly Tensor[]): Tensor[] {
  const made = operations[c.op]!.call(inputs, c.args);
  return (made instanceof Tensor ? [made] : made).filter((t) => t.dtype === "float64");
}

/** The number that is differentiated: the results weighted by the cotangent. */
function weighted(results: readonly Tensor[], backend: BackendName): Tensor {
  return results.map((t) => {
    const weights = Tensor.fromHost(cotangent(t.size), { shape: t.shape, dtype: t.dtype, backend });
    return t.mul(weights).sum();
  }).reduce((a, b) => a.add(b));
}

function inputsOf(c: Case, layout: Layout, backend: BackendName): Laid[] {
  return c.inputs.map((v, k) => lay(v, layout, { backend, requiresGrad: c.grads![k] !== null }));
}

/** The request of a case, and its faults. */
interface Check {
  readonly tensors: readonly Tensor[];
  readonly problem: () => string | null;
}

/** Collects what several cases want computed, computes it in one go, and checks each. */
function problemsOf(of: readonly Case[], prepare: (c: Case) => Check): string[] {
  const problems: string[] = [];
  const checks = of.flatMap((c) => {
    try {
      return [{ c, ...prepare(c) }];
    } catch (error) {
      problems.push(`${titleOf(c)} throws ${error}`);
      return [];
    }
  });
  realizeAll(checks.flatMap((check) => check.tensors));
  for (const { c, problem } of checks) {
    const text = problem();
    if (text !== null) problems.push(`${titleOf(c)} ${text}`);
  }
  return problems;
}

/** A schedule of all takes longer than those of a few; on OpenCL kernels are built together. */
const AT_ONCE = { cpu: 15, cl: Infinity };

/** Checks every case. */
function checkAll(backend: BackendName, of: readonly Case[], prepare: (c: Case) => Check): void {
  const parts = Map.groupBy(of, (_, k) => Math.floor(k / AT_ONCE[backend])).values();
  assertNoProblems([...parts].flatMap((part) => problemsOf(part, prepare)), of.length);
}

function gradientsOf(c: Case, layout: Layout, backend: BackendName, isRead = false) {
  const laid = inputsOf(c, layout, backend);
  const loss = weighted(resultsOf(c, laid.map((l) => l.tensor)), backend);
  if (isRead) loss.itemSync();
  loss.backward();
  const wanted = laid.filter((l) => l.leaf.requiresGrad);
  const expected = c.grads!.filter((g) => g !== null);
  // What a view leaves out of its leaf gets no gradient.
  const pairs = wanted.map(({ leaf, view }) => {
    const whole = leaf.grad!, seen = view(whole);
    return { seen, outside: whole.abs().sum().sub(seen.abs().sum()) };
  });
  const problem = (): string | null => {
    for (const [k, { seen, outside }] of pairs.entries()) {
      const slack = (operations[c.op]!.slack ?? 1) * 10;
      const text = differenceOf(seen.toHostSync(), expected[k]!, "float64", slack);
      if (text !== null) return `gradient ${k} ${text}`;
      const rest = outside.itemSync();
      if (Math.abs(rest) > 1e-6) return `gradient ${k} is not zero outside the view: ${rest}`;
    }
    return null;
  };
  return { tensors: pairs.flatMap(({ seen, outside }) => [seen, outside]), problem };
}

for (const layout of layouts) {
  const test = layout === "plain" ? testOnBackends : testOnCPU;
  test(`the gradients are PyTorch's, ${layout} inputs`, (backend: BackendName) => {
    checkAll(backend, sampleFor(backend, cases), (c) => gradientsOf(c, layout, backend));
  });
}

testOnCPU("the gradients are PyTorch's where the value is read before backward", (backend) => {
  checkAll(backend, sampleFor(backend, cases), (c) => gradientsOf(c, "plain", backend, true));
});

/** Numbers between -1 and 1 that look like chance and are the same in every run. */
function direction(n: number, seed: number): number[] {
  return Array.from({ length: n }, (_, k) => Math.sin(12.9898 * (k + 1) + 78.233 * seed));
}

const STEP = 1e-5;

/** The case's inputs moved along a direction by so many steps. */
function moved(c: Case, steps: number, backend: BackendName): Tensor[] {
  return c.inputs.map((v, k) => {
    const along = direction(v.data.length, k);
    const data = c.grads![k] === null
      ? v.data.map(decode)
      : v.data.map((x, i) => decode(x) + steps * STEP * along[i]!);
    const { shape, dtype } = v, requiresGrad = c.grads![k] !== null;
    return Tensor.fromHost(data, { shape, dtype, backend, requiresGrad });
  });
}

/** `sum(gradients * direction)`: what the difference quotient should be. */
function along(c: Case, gradients: readonly Tensor[], backend: BackendName): Tensor {
  const wanted = c.inputs.map((_, k) => k).filter((k) => c.grads![k] !== null);
  return gradients.map((g, i) => {
    const d = direction(g.size, wanted[i]!);
    return g.mul(Tensor.fromHost(d, { shape: g.shape, dtype: "float64", backend })).sum();
  }).reduce((a, b) => a.add(b));
}

/** Compares the derivative of a function of the case's inputs with a difference quotient. */
function checkDerivative(
  c: Case,
  backend: BackendName,
  value: (inputs: readonly Tensor[]) => Tensor,
  derivative: (inputs: readonly Tensor[]) => Tensor,
) {
  const [before, after] = [-1, 1].map((steps) => value(moved(c, steps, backend)));
  const exact = derivative(moved(c, 0, backend));
  const problem = (): string | null => {
    const quotient = (after!.itemSync() - before!.itemSync()) / (2 * STEP);
    const actual = exact.itemSync();
    const scale = 1 + Math.abs(quotient) + Math.abs(after!.itemSync());
    return Math.abs(actual - quotient) <= 1e-6 * scale
      ? null
      : `has the derivative ${actual} where the difference quotient is ${quotient}`;
  };
  return { tensors: [before!, after!, exact], problem };
}

function leavesOf(c: Case, inputs: readonly Tensor[]): Tensor[] {
  return inputs.filter((_, k) => c.grads![k] !== null);
}

testOnCPU("the gradients are those of finite differences", (backend: BackendName) => {
  checkAll(backend, smooth, (c) => {
    const value = (inputs: readonly Tensor[]): Tensor => weighted(resultsOf(c, inputs), backend);
    return checkDerivative(c, backend, value, (inputs) => {
      return along(c, grad([value(inputs)], leavesOf(c, inputs)), backend);
    });
  });
});

testOnCPU("the second derivatives are those of finite differences", (backend: BackendName) => {
  checkAll(backend, smooth, (c) => {
    const value = (inputs: readonly Tensor[]): Tensor => {
      const first = weighted(resultsOf(c, inputs), backend);
      const gradients = grad([first], leavesOf(c, inputs), { createGraph: true });
      return gradients.map((g) => g.mul(g).sum()).reduce((a, b) => a.add(b));
    };
    return checkDerivative(c, backend, value, (inputs) => {
      const root = value(inputs);
      const gradients = root.requiresGrad
        ? grad([root], leavesOf(c, inputs))
        : leavesOf(c, inputs).map((leaf) => leaf.zerosLike());
      return along(c, gradients, backend);
    });
  });
});
