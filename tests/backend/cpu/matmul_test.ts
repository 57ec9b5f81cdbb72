import { assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { planGemm } from "../../../backend/cpu/blas/gemm_plan.ts";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";
import { type DType, type Tensor, withDevice } from "../../../mod.ts";
import { assertAgree, blasBackend, filled } from "./strategies.ts";
import { testOnCPU } from "../../opencl.ts";
import { contractionsOf } from "../loop_kernels.ts";

/** The kernel with the contraction. */
const contractionOf = (tensor: Tensor): LoopKernel => contractionsOf(() => tensor)[0]!;

const sizes = fc.integer({ min: 1, max: 21 });

Deno.test("matrices of any size and layout agree with the reference, with what follows", () => {
  const layouts = fc.record({
    sizes: fc.tuple(sizes, sizes, sizes),
    batch: fc.integer({ min: 1, max: 3 }),
    left: fc.boolean(),
    right: fc.boolean(),
    follows: fc.constantFrom("nothing", "bias", "transpose", "half", "two", "broadcast"),
    dtype: fc.constantFrom<DType>("float32", "float64", "float16", "bfloat16", "int32"),
  });
  withDevice("cpu", () => {
    fc.assert(
      fc.property(layouts, ({ sizes: [m, n, k], batch, left, right, follows, dtype }) => {
        assertAgree(() => {
          const a = left ? filled([batch, k, m], dtype).transpose() : filled([batch, m, k], dtype);
          const b = right ? filled([batch, n, k], dtype).transpose() : filled([batch, k, n], dtype);
          if (follows === "broadcast") return a.matmul(b.slice([0, 1])).relu();
          const product = a.matmul(b);
          if (follows === "bias") return product.add(filled([n], dtype)).relu();
          if (follows === "transpose") return product.transpose().mul(2);
          if (follows === "half") return product.cast("float16");
          return follows === "two" ? product.mul(product).sum(2) : product;
        });
      }),
      { numRuns: 120 },
    );
  });
});

testOnCPU("operands are read where they lie; windows and half types are copied first", () => {
  const a = filled([24, 32]), b = filled([32, 40]);
  const copies = (t: Tensor): [boolean, boolean] => {
    const plan = planGemm(contractionOf(t), 1000)!;
    return [plan.a.pack !== null, plan.b.pack !== null];
  };
  assertEquals(copies(a.matmul(b)), [false, false]);
  assertEquals(copies(b.transpose().matmul(a.transpose())), [false, false]);
  assertEquals(copies(a.slice(null, [0, 16]).matmul(b.slice([0, 16]))), [false, false]);
  assertEquals(copies(a.cast("bfloat16").matmul(b.cast("bfloat16"))), [true, true]);
  const image = filled([2, 8, 12, 12]), weight = filled([16, 8, 3, 3]);
  assertEquals(copies(image.conv2d(weight)).filter(Boolean).length, 1);
});

testOnCPU("the product is made in the output, what follows runs over it in place", () => {
  const a = filled([24, 32]), b = filled([32, 40]);
  const plain = planGemm(contractionOf(a.matmul(b)), 1000)!;
  assertEquals([plain.output, plain.epilogue], [0, null]);
  const relu = planGemm(contractionOf(a.matmul(b).relu()), 1000)!;
  assertEquals([relu.output, relu.epilogue === null], [0, false]);
  const half = planGemm(contractionOf(a.matmul(b).cast("float16")), 1000)!;
  assertEquals(half.output, null);
});

testOnCPU("small products and whole numbers are left to JavaScript", () => {
  const a = filled([8, 8]);
  assertEquals(planGemm(contractionOf(a.matmul(a)), 1000), null);
  const i = filled([32, 32], "int32");
  assertEquals(planGemm(contractionOf(i.matmul(i)), 1000), null);
});

Deno.test("the system's BLAS serves large matrices, and the source says so", {
  ignore: blasBackend === null,
}, () => {
  withDevice("cpu", () => {
    const a = filled([70, 65]), b = filled([65, 90]);
    const [launch] = blasBackend!.prepare([contractionOf(a.matmul(b).relu())]);
    const { gemm } = blasBackend!.strategy;
    assertStringIncludes(launch!.source, `${gemm!.name}: 70 x 65 by 65 x 90`);
    assertAgree(() => a.matmul(b).relu());
    const image = filled([3, 8, 12, 12]), weight = filled([16, 8, 3, 3]);
    assertAgree(() => image.conv2d(weight, { padding: 1 }).relu());
  });
});
