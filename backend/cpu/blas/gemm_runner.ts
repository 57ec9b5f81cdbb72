/** Runs a contraction as products of matrices, with loops before and after. */
import type { TypedArray } from "../../graph/dtype.ts";
import type { LoopKernel } from "../../kernel/kernel.ts";
import type { Gemm, GemmType, Matrix } from "./gemm.ts";
import { type GemmPlan, type MatrixPlan, type OperandPlan, planGemm } from "./gemm_plan.ts";
import { arrayOf, type HostBlock, type Runner } from "../script/runner.ts";

/** A runner's needs of its backend. */
export interface GemmHost {
  /** Compiles a loop. */
  compile(kernel: LoopKernel): Runner;
  /** Told when a library has computed with threads of its own. */
  othersWorked(): void;
  /** Gives `use` a block of so many elements, for as long as it runs; gives back what `use` does. */
  withScratch<T>(dtype: GemmType, size: number, use: (block: HostBlock) => T): T;
}

/**
 * The runner for a kernel, or null where products of matrices do not help. `copies`: also where an
 * operand must be unrolled into a matrix first.
 */
export function gemmRunner(
  kernel: LoopKernel,
  gemm: Gemm,
  host: GemmHost,
  copies: boolean,
): Runner | null {
  const plan = planGemm(kernel, gemm.minProducts);
  if (!plan || !gemm.types.has(plan.dtype)) return null;
  const unrolls = ({ input, pack }: OperandPlan): boolean =>
    pack !== null && kernel.inputs[input] === plan.dtype;
  if (!copies && (unrolls(plan.a) || unrolls(plan.b))) return null;
  const loops = [plan.a.pack?.kernel, plan.b.pack?.kernel, plan.epilogue]
    .map((loop) => loop ? host.compile(loop) : null);
  const [packA, packB, epilogue] = loops as [Runner | null, Runner | null, Runner | null];
  return {
    source: [packA?.source, packB?.source, describe(plan, gemm), epilogue?.source]
      .filter((part) => part !== undefined).join("\n"),
    run(inputs, outputs) {
      withOperand(host, plan.dtype, plan.a, packA, inputs, (a) => {
        withOperand(host, plan.dtype, plan.b, packB, inputs, (b) => {
          withProduct(host, plan, outputs, (c) => {
            const [x, y, z] = [a, b, c].map((block) => arrayOf(block, plan.dtype));
            multiplyAll(gemm, plan, x!, y!, z!);
            host.othersWorked();
            epilogue?.run([...inputs, c], outputs);
          });
        });
      });
    },
  };
}

function describe({ product: { m, n, k, batch }, dtype }: GemmPlan, gemm: Gemm): string {
  const times = batch.map(({ size }) => `${size} times `).join("");
  return `// ${gemm.name}: ${times}${m} x ${k} by ${k} x ${n}, ${dtype}`;
}

function withOperand(
  host: GemmHost,
  dtype: GemmType,
  { input, pack }: OperandPlan,
  packer: Runner | null,
  inputs: readonly HostBlock[],
  use: (block: HostBlock) => void,
): void {
  if (!pack || !packer) return use(inputs[input]!);
  host.withScratch(dtype, pack.size, (block) => {
    packer.run([inputs[input]!], [block]);
    use(block);
  });
}

function withProduct(
  host: GemmHost,
  { dtype, output, size }: GemmPlan,
  outputs: readonly HostBlock[],
  use: (block: HostBlock) => void,
): void {
  if (output !== null) use(outputs[output]!);
  else host.withScratch(dtype, size, use);
}

function multiplyAll(
  gemm: Gemm,
  { product, dtype }: GemmPlan,
  left: TypedArray,
  right: TypedArray,
  c: TypedArray,
): void {
  const { m, n, k, batch, isSwapped } = product;
  const [a, b] = isSwapped ? [right, left] : [left, right];
  const walk = (depth: number, [ao, bo, co]: readonly [number, number, number]): void => {
    const loop = batch[depth];
    if (!loop) {
      gemm.multiply({
        dtype,
        m,
        n,
        k,
        a: matrix(a, product.a, ao),
        b: matrix(b, product.b, bo),
        c: matrix(c, product.c, co),
      });
      return;
    }
    const [as, bs, cs] = loop.steps;
    for (let i = 0; i < loop.size; i++) walk(depth + 1, [ao + i * as, bo + i * bs, co + i * cs]);
  };
  walk(0, [0, 0, 0]);
}

function matrix(data: TypedArray, plan: MatrixPlan, moved: number): Matrix {
  return { ...plan, data, offset: plan.offset + moved };
}
