/** Products as loop kernels, and runs of their tile programs. */
import { assert } from "@std/assert";
import type { DType } from "../../../../backend/graph/dtype.ts";
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import { localMemoryGemm } from "../../../../backend/opencl/templates/gemm/local_memory_gemm.ts";
import { planKernel } from "../../../../backend/opencl/templates/generate.ts";
import type { TileKernel } from "../../../../backend/tile/language/statements.ts";
import { Tensor } from "../../../../mod.ts";
import { gpuTarget } from "../../opencl/templates/chosen_template.ts";
import { interpret, type Report } from "../interpreter.ts";
import { buffersOf, errorOf } from "../loop_buffers.ts";
import { contractionsOf } from "../../loop_kernels.ts";

const target = { ...gpuTarget, matrixUnits: null };

/** The product of a tensor. */
export function productOf(make: () => Tensor): LoopKernel {
  const [found] = contractionsOf(make, { target, planKernel });
  assert(found && planKernel(found, target).name === localMemoryGemm.name);
  return found;
}

/** Runs a program of a kernel: what the interpreter says, and the largest error of its outputs. */
export function run(kernel: LoopKernel, tile: TileKernel): { report: Report; error: number } {
  const buffers = buffersOf(kernel), report = interpret(tile, buffers);
  return { report, error: errorOf(kernel, buffers) };
}

export const of = (shape: number[], dtype: DType = "float32"): Tensor =>
  Tensor.zeros(shape, { dtype }).realize();

export const convolved = (
  x: number[],
  w: number[],
  options: Record<string, number>,
  dtype: DType = "float32",
): Tensor => of(x, dtype).conv2d(of(w, dtype), options);
