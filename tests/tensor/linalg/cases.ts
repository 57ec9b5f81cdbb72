/** Cases of PyTorch's in double and single precision, with gradients: of matrices and of signals. */
import { assertEquals } from "@std/assert";
import { type BackendName, type DType, Tensor } from "../../../mod.ts";
import { type Case, cotangent, decode, readLines, titleOf } from "../../conformance/fixture.ts";
import { withDeclarations } from "../../backend/opencl/fixture.ts";
import { assertNumbers, numbersOf } from "../numbers.ts";

/** Results of a case for its inputs. */
export type Call = (c: Case, inputs: Tensor[], dtype: DType) => Tensor[];

/** Relative errors of results in each precision; those of gradients are so many times as large. */
export interface Errors {
  readonly float64: number;
  readonly float32: number;
  readonly gradients: number;
}

function check(c: Case, dtype: keyof Errors & DType, call: Call, errors: Errors): void {
  const title = `${titleOf(c)} of ${dtype}`, requiresGrad = c.grads !== undefined;
  const inputs = c.inputs.map(({ shape, data }) =>
    Tensor.fromHost(data.map(decode), { shape, dtype, requiresGrad })
  );
  const outputs = call(c, inputs, dtype), shapes = c.outputs.map(({ shape }) => [...shape]);
  assertEquals(outputs.map(({ shape }) => [...shape]), shapes, title);
  const sums = outputs.filter((out) => out.requiresGrad).map((out) =>
    out.mul(Tensor.fromHost(cotangent(out.size), { shape: out.shape, dtype })).sum()
  );
  if (requiresGrad) sums.reduce((sum, next) => sum.add(next)).backward();
  for (const [k, { data }] of c.outputs.entries()) {
    const found = numbersOf(outputs[k]!.detach().contiguous());
    assertNumbers(found, data.map(decode), errors[dtype], `${title}: result ${k}`);
  }
  c.grads?.forEach((gradient, k) => {
    // PyTorch has zeros for an imaginary part that is not read.
    const found = numbersOf((inputs[k]!.grad ?? inputs[k]!.detach().zerosLike()).contiguous());
    const what = `${title}: gradient ${k}`;
    assertNumbers(found, gradient!.map(decode), errors.gradients * errors[dtype], what);
  });
}

/**
 * Checks the cases of a fixture. PoCL compiles for a while: there one case of an operation is enough, of a type
 * by turns, and those of a variant.
 */
export function checkCases(
  backend: BackendName,
  fixture: string,
  call: Call,
  errors: Errors,
  variant?: string,
): void {
  const seen = new Set<string>();
  for (const c of readLines<Case>(fixture)) {
    const isFirst = seen.size < seen.add(c.op).size || c.variant === variant;
    for (const [k, dtype] of (["float64", "float32"] as const).entries()) {
      if (backend !== "cpu" && !(isFirst && seen.size % 2 === k)) continue;
      withDeclarations(() => check(c, dtype, call, errors));
    }
  }
}
