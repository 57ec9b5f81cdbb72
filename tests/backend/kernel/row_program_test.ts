import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  affineExprsOf,
  neededBy,
  operandsOf,
  variesWith,
} from "../../../backend/kernel/analysis.ts";
import { blocksOf, isBlocked } from "../../../backend/kernel/accumulation.ts";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";
import { inItems, inVectorRows } from "../../../backend/kernel/row_mappings.ts";
import {
  elementStores,
  lastReduction,
  type RowProgram,
  rowProgram,
} from "../../../backend/kernel/row_program.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { Tensor, withDevice } from "../../../mod.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import "../../opencl.ts";
import { build, graphs } from "../../tensor/graphs/graph.ts";

/** The loop kernels that tensors are computed by. */
function loopKernels(make: () => readonly Tensor[]): LoopKernel[] {
  return withDevice("cpu", () => {
    const { kernels } = schedule(make().map((tensor) => nodeOf(tensor)));
    return kernels.flatMap(({ kernel }) =>
      kernel.kind === "loop" && !kernel.contraction ? [kernel] : []
    );
  });
}

function kernelOf(make: () => Tensor): LoopKernel {
  const kernels = loopKernels(() => [make()]);
  assertEquals(kernels.length, 1);
  return kernels[0]!;
}

const rows = (): Tensor => Tensor.ones([6, 500]).realize();

/** Results, walks and stores of a program, checked step by step. */
function check(kernel: LoopKernel, program: RowProgram): void {
  const { exprs, reductions, outputs } = kernel;
  const varies = variesWith(kernel, kernel.inner);
  const known = new Set<number>(), reduced = new Set<number>(), stored: number[] = [];
  const compute = (ids: readonly number[], into: Set<number>): void => {
    for (const id of ids) {
      assert(!known.has(id), `expression ${id} is computed once`);
      for (const operand of operandsOf(kernel, exprs[id]!)) {
        assert(into.has(operand) || known.has(operand), `${operand} is there before ${id}`);
      }
      const e = exprs[id]!;
      if (e.op === "reduced") assert(reduced.has(e.reduction), "a result is used when it is there");
      into.add(id);
    }
  };
  for (const step of program) {
    switch (step.kind) {
      case "compute":
        assert(step.exprs.length > 0 && step.exprs.every((id) => !varies[id]));
        compute(step.exprs, known);
        break;
      case "reduce": {
        assert(step.exprs.every((id) => varies[id]));
        const element = new Set<number>();
        compute(step.exprs, element);
        for (const r of step.reductions) {
          const { expr } = reductions[r]!;
          assert(element.has(expr) || known.has(expr), "what is reduced is computed");
        }
        step.reductions.forEach((r) => reduced.add(r));
        assert(
          step.outputs.every((o) => element.has(outputs[o]!.expr)),
          "what is stored is computed",
        );
        stored.push(...step.outputs);
        break;
      }
      case "store":
        assert(step.outputs.every((o) => known.has(outputs[o]!.expr)));
        stored.push(...step.outputs);
        break;
      case "storeEach": {
        const element = new Set<number>(step.keeps ? [step.keeps.expr] : []);
        compute(step.exprs, element);
        const { expr } = outputs[step.outputs[0]!]!;
        assert(element.has(expr) || known.has(expr));
        stored.push(...step.outputs);
      }
    }
  }
  assertEquals(reduced.size, reductions.length);
  assertEquals(stored.sort((a, b) => a - b), outputs.map((_, o) => o));
}

Deno.test("RowProgram computes all that it uses, once and before that", () => {
  fc.assert(
    fc.property(graphs(8), (graph) => {
      for (const kernel of loopKernels(() => build(graph))) check(kernel, rowProgram(kernel));
    }),
    { numRuns: 200, seed: 3 },
  );
});

Deno.test("RowProgram: what is the same for a whole row is computed outside of its walks", () => {
  const kernel = kernelOf(() => {
    const x = rows();
    return x.mul(x.sum([1], { keepDims: true }).sqrt());
  });
  assertEquals(rowProgram(kernel).map((step) => step.kind), ["reduce", "compute", "storeEach"]);
  check(kernel, rowProgram(kernel));
});

Deno.test("RowProgram: a value that is reduced and asked for is stored in the walk that reduces it", () => {
  const [kernel, ...others] = loopKernels(() => {
    const x = rows().mul(2).exp();
    return [x, x.sum([1])];
  });
  assertEquals(others, []);
  assertEquals(rowProgram(kernel!).map((step) => step.kind), [
    "compute",
    "reduce",
    "compute",
    "store",
  ]);
  check(kernel!, rowProgram(kernel!));
});

Deno.test("RowProgram: a kept value is read back: what it is made of is not computed again", () => {
  const kernel = kernelOf(() => rows().softmax(-1));
  const plain = rowProgram(kernel), stores = elementStores(plain)!;
  const exp = kernel.exprs.findIndex((e) => e.op === "primitive" && e.fn === "exp");
  assert(lastReduction(plain)!.exprs.includes(exp) && stores.exprs.includes(exp));
  const kept = rowProgram(kernel, { expr: exp, output: stores.outputs[0]! });
  check(kernel, kept);
  assertEquals(lastReduction(kept)!.keeps?.expr, exp);
  const again = elementStores(kept)!;
  assert(!again.exprs.includes(exp) && again.exprs.length < stores.exprs.length);
  assertEquals(again.exprs.some((id) => kernel.exprs[id]!.op === "load"), false);
});

Deno.test("RowProgram: mappings cut long sums of floats, and nothing else", () => {
  const sums = kernelOf(() => rows().sum(1)), largest = kernelOf(() => rows().max(1));
  const cut = (program: RowProgram) => lastReduction(program)!.blocked;
  const never = () => false;
  assertEquals(cut(inItems(sums, rowProgram(sums), never))?.blocks, blocksOf(sums));
  assertEquals(cut(inItems(sums, rowProgram(sums), () => true)), null, "sums in doubles");
  assertEquals(cut(inItems(largest, rowProgram(largest), never)), null);
  assert(sums.reductions.every(isBlocked) && !largest.reductions.some(isBlocked));
  const along = sums.inner.at(-1)!;
  // 500 elements are 8 additions in each of 4 vectors of 16 lanes: one block.
  const vectors = inVectorRows(sums, rowProgram(sums), along, 16, () => 4);
  assertEquals([lastReduction(vectors)!.copies, cut(vectors)], [4, null]);
});

Deno.test("RowProgram: what varies with a loop is what reads it, by itself or by its operands", () => {
  fc.assert(
    fc.property(graphs(6), (graph) => {
      for (const kernel of loopKernels(() => build(graph))) {
        for (const symbols of [kernel.inner, ...kernel.outer.map((s) => [s])]) {
          const varies = variesWith(kernel, symbols);
          kernel.exprs.forEach((_, id) => {
            // The results of reductions depend on more than operands.
            const needed = neededBy(kernel, [id]).map((k) => kernel.exprs[k]!);
            if (needed.some(({ op }) => op === "reduced")) return;
            const reads = needed.some((e) =>
              affineExprsOf(kernel, e).some(({ terms }) => terms.some(([s]) => symbols.includes(s)))
            );
            assertEquals(varies[id], reads);
          });
        }
      }
    }),
    { numRuns: 100, seed: 5 },
  );
});
