import { assert, assertEquals } from "@std/assert";
import { schedule } from "../../../backend/internal.ts";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";
import { type DType, grad, noGrad, Tensor, withDevice } from "../../../mod.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { hasOpenCL, testOnCPU, testOpenCL } from "../../opencl.ts";
import { gpu } from "./nodes.ts";

function loopsOf(tensor: Tensor): LoopKernel[] {
  const { kernels } = schedule([nodeOf(tensor)]);
  return kernels.flatMap(({ kernel }) => kernel.kind === "loop" ? [kernel] : []);
}

function asks({ exprs }: LoopKernel): boolean {
  return exprs.some(({ op }) => op === "inside");
}

function grid(rows: number, columns: number): Tensor {
  return Tensor.arange(rows * columns).sub(7).div(3).reshape([rows, columns]).realize();
}

/** Matrices that are joined along an axis, and the loops that take. */
interface Case {
  readonly parts: () => Tensor[];
  readonly axis: number;
  readonly loops?: number;
  /** False for what no loop stores in pieces. */
  readonly inPieces?: boolean;
}

const cases: Readonly<Record<string, Case>> = {
  "gates": {
    parts: () => {
      const sum = grid(3, 32).add(1);
      const gate = (k: number): Tensor => sum.slice(null, [8 * k, 8 * k + 8]);
      return [gate(0).sigmoid(), gate(1).tanh().mul(gate(0)), gate(2).exp(), gate(3)];
    },
    axis: 1,
  },
  "parts of different lengths": {
    parts: () => [grid(2, 9).exp(), grid(2, 3).neg(), grid(2, 6)],
    axis: 1,
  },
  "one beside itself": {
    parts: () => {
      const y = grid(4, 5);
      return [y, y.relu(), y];
    },
    axis: 0,
  },
  "zeros with signs": { parts: () => [grid(2, 4).mul(-0), grid(2, 4).mul(0)], axis: 0 },
  "whole numbers": {
    parts: () => [grid(2, 3).cast("int32"), grid(2, 3).cast("int32").neg()],
    axis: 1,
  },
  "truth values": { parts: () => [grid(2, 3).gt(0), grid(2, 3).le(0)], axis: 1 },
  "one without elements": { parts: () => [grid(2, 4), grid(2, 0), grid(2, 4).neg()], axis: 1 },
  "sums": {
    parts: () => [grid(4, 8).sum(1, { keepDims: true }), grid(4, 8).max(1, { keepDims: true })],
    axis: 1,
    loops: 3,
  },
  "products": { parts: () => [grid(4, 8).matmul(grid(8, 4)), grid(4, 4)], axis: 1, loops: 2 },
  "transposed": { parts: () => [grid(4, 6).transpose(), grid(6, 4).exp()], axis: 1 },
  "twelve": { parts: () => Array.from({ length: 12 }, (_, k) => grid(2, 3).add(k)), axis: 0 },
  "forty": {
    parts: () => Array.from({ length: 40 }, (_, k) => grid(2, 3).add(k)),
    axis: 1,
    loops: 7,
  },
  "many channels and a few": { parts: () => [grid(2, 40).exp(), grid(2, 8)], axis: 1 },
  "a row behind those so far": { parts: () => [grid(9, 4), grid(1, 4)], axis: 0, inPieces: false },
  "lengths with no common measure": {
    parts: () => [grid(1, 37), grid(1, 5)],
    axis: 1,
    inPieces: false,
  },
};

testOnCPU("values side by side are stored by one loop, which asks for no part", () =>
  noGrad(() => {
    for (const [name, { parts, axis, loops = 1, inPieces = true }] of Object.entries(cases)) {
      const found = loopsOf(Tensor.concat(parts(), axis));
      assertEquals(!found.some(asks), inPieces, name);
      assertEquals(found.length, loops, name);
    }
  }));

testOnCPU("what reads values side by side need not have them stored", () =>
  noGrad(() => {
    assertEquals(loopsOf(Tensor.concat([grid(3, 4), grid(3, 4)], 1).sum(1)).length, 1);
  }));

type Rows = number[][];

/** Vectors and scalars differ in the last digits; never in the sign of a zero. */
function alike(a: number, b: number): boolean {
  return Object.is(a, b) || a !== 0 && Math.abs(a - b) <= 2e-6 * Math.abs(b);
}

async function rowsOf(tensor: Tensor): Promise<Rows> {
  const [rows, columns] = tensor.shape as [number, number];
  const values = [...await tensor.toFloat32()];
  return Array.from({ length: rows }, (_, r) => values.slice(r * columns, (r + 1) * columns));
}

for (const device of ["cpu", "cl"]) {
  const test = device === "cl" ? testOpenCL : Deno.test;
  test(`each value side by side with others is what it is by itself (${device})`, () =>
    withDevice(device, async () => {
      for (const [name, { parts, axis }] of Object.entries(cases)) {
        const found = await rowsOf(noGrad(() => Tensor.concat(parts(), axis)));
        const each = await Promise.all(noGrad(parts).map(rowsOf));
        const expected = axis === 0
          ? each.flat()
          : each[0]!.map((_, r) => each.flatMap((rows) => rows[r]!));
        const isLike = found.flat().every((v, k) => alike(v, expected.flat()[k]!));
        assert(isLike, `${name}: ${found} for ${expected}`);
      }
    }));
}

testOnCPU("gradients of slices that lie side by side are stored in pieces, too", () => {
  const x = Tensor.ones([64, 48], { requiresGrad: true }).realize();
  const [q, k, v] = x.split(16, 1) as [Tensor, Tensor, Tensor];
  q.exp().mul(k.tanh()).add(v).sum().backward();
  for (const device of [{}, { device: gpu }]) {
    const { kernels } = schedule([nodeOf(x.grad!)], device);
    const loops = kernels.flatMap(({ kernel }) => kernel.kind === "loop" ? [kernel] : []);
    assert(!loops.some(asks), "an element looks at whose it is");
    assertEquals(loops.map(({ outputs }) => outputs.length), [3]);
  }
});

Deno.test("gradients of slices are stored in pieces where they are cast, each rounded as before", () => {
  const grads = (device: string, narrow: DType, wide: DType): number[][] =>
    withDevice(device, () => {
      const x = Tensor.arange(64 * 48).mul(0.37).sin().reshape([64, 48]).cast(narrow).realize();
      x.requiresGrad = true;
      const [q, k, v] = x.split(16, 1) as [Tensor, Tensor, Tensor];
      const [gradient] = grad([q.mul(k).add(v.mul(v)).sum()], [x]) as [Tensor];
      const cast = gradient.cast(wide);
      if (device === "cpu") {
        const { kernels } = schedule([nodeOf(cast)], { device: gpu });
        const loops = kernels.flatMap(({ kernel }) => kernel.kind === "loop" ? [kernel] : []);
        assert(!loops.some(asks), "an element looks at whose it is");
        assertEquals(loops.map(({ outputs }) => outputs.map(({ dtype }) => dtype)), [[
          wide,
          wide,
          wide,
        ]]);
      }
      return [[...cast.cast("float32").toHostSync("float32")]];
    });
  for (const [narrow, wide] of [["bfloat16", "float32"], ["float32", "float16"]] as const) {
    const expected = grads("cpu", narrow, wide);
    if (hasOpenCL) assertEquals(grads("cl", narrow, wide), expected);
  }
});

testOnCPU("what follows a product is stored by its kernel where overlapping windows read", () => {
  const x = Tensor.ones([1, 3, 12, 12]).realize(), w = Tensor.ones([4, 3, 3, 3]).realize();
  const shift = Tensor.ones([4, 1, 1]).realize();
  const labels = (size: number, stride: number): string[] => {
    const y = x.conv2d(w).mul(shift).add(shift).relu();
    return schedule([nodeOf(y.maxPool2d(size, { stride }))]).kernels.map(({ kernel }) =>
      kernel.label
    );
  };
  const follows = (found: string[]): boolean[] => found.map((label) => label.includes("matmul"));
  assertEquals(follows(labels(3, 1)), [true, false]);
  assertEquals(labels(3, 1)[0], "matmul_mul_add_maximum");
  // Windows side by side read each value once: it is computed there.
  assertEquals(labels(2, 2)[0], "matmul");
});
