// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/**
 * Every operation and its gradient with PyTorch's values, as a part of a compiled function whose calls are
 * replayed.
 */
import "../guarded.ts";
import { assertEquals } from "@std/assert";
import { compile, grad, Tensor, withDevice } from "../../mod.ts";
import { testOnCPU } from "../opencl.ts";
import { outcomesOf } from "../tensor/compile/outcomes.ts";
import { difference, differenceOf } from "./comparison.ts";
import { type Case, cotangent, families, readCases, titleOf } from "./fixture.ts";
import { lay } from "./layouts.ts";
import { apart, expectedType, operations } from "./operations.ts";

/** Operations that read a size on the way in some cases: what cannot be replayed is refused with the remedy. */
const sized: ReadonlySet<string> = new Set(
  "maskedSelect nonzero unique index indexPut repeatInterleave bincount histogramdd".split(" "),
);
const refusal = /inside a compiled function: the size of its result depends on values/;

/** The results of a case, and the gradients of the inputs that have one. */
function resultsOf(c: Case, tensors: readonly Tensor[]): Tensor[] {
  const inputs = tensors.map((x, k) => {
    return c.grads?.[k] ? Object.assign(x.detach(), { requiresGrad: true }) : x;
  });
  const made = operations[c.op]!.call(inputs, c.args);
  const results = made instanceof Tensor ? [made] : [...made];
  const learned = inputs.filter((_, k) => c.grads?.[k]);
  if (learned.length === 0) return results;
  const outputs = results.filter((t) => t.requiresGrad);
  const gradients = outputs.map(({ shape, dtype, size }) =>
    Tensor.fromHost(cotangent(size), { shape, dtype })
  );
  return [...results, ...grad(outputs, learned, { gradients })];
}

/** The fault of what a call gave, or null. */
function faultOf(c: Case, found: readonly Tensor[]): string | null {
  const operation = operations[c.op]!, { outputs } = c;
  const faults = outputs.map((expected, k) =>
    difference(found[k]!, expected, expectedType(operation, expected.dtype), operation.slack)
  );
  const gradients = c.grads?.filter((g) => g !== null) ?? [];
  const ofGradients = gradients.map((expected, k) => {
    const { dtype } = found[outputs.length + k]!, numbers = found[outputs.length + k]!.toHostSync();
    return differenceOf(numbers, expected, dtype, 4 * (operation.slack ?? 1));
  });
  return [...faults, ...ofGradients].find((fault) => fault !== null) ?? null;
}

/** The fault of calls of a compiled function that is one operation, or null. */
function problemOf(c: Case): string | null {
  const step = compile((...tensors: Tensor[]) => resultsOf(c, tensors));
  const faults: (string | null)[] = [];
  const outcomes = outcomesOf(() => {
    for (let call = 0; call < 3; call++) {
      const inputs = c.inputs.map((v) =>
        lay(v, "plain", { backend: "cpu", dtype: v.dtype }).tensor
      );
      faults.push(faultOf(c, step(...inputs)));
    }
  });
  const isFollowed = sized.has(c.op) || outcomes.at(-1) === "followed";
  return faults.find((fault) => fault !== null) ??
    (isFollowed ? null : `is not replayed: ${outcomes.join(", ")}`);
}

for (const family of families) {
  testOnCPU(`compile replays ${family} and its gradients`, () => {
    const cases = readCases(family).filter((c) => !apart.has(titleOf(c)));
    const problems = withDevice("cpu", () =>
      cases.flatMap((c) => {
        try {
          const text = problemOf(c);
          return text === null ? [] : [`${titleOf(c)} ${text}`];
        } catch (error) {
          return sized.has(c.op) && refusal.test(`${error}`)
            ? []
            : [`${titleOf(c)} throws ${error}`];
        }
      }));
    assertEquals(problems, []);
  });
}
