/** Products of CPU devices, of every mapping and odd sizes, as the interpreter runs them. */
import { assert, assertEquals } from "@std/assert";
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import { type AffineExpr, coefficient } from "../../../../backend/kernel/affine.ts";
import { convolutionLoops } from "../../../../backend/kernel/forms/convolution_loops.ts";
import type { Target } from "../../../../backend/kernel/target.ts";
import { contractionMatch } from "../../../../backend/opencl/templates/generate.ts";
import type { LanePlan } from "../../../../backend/opencl/templates/parts/lane_program.ts";
import { add } from "../../../../backend/tile/language/expression.ts";
import type { LaneMapping } from "../../../../backend/tile/programs/lanes/lane_mapping.ts";
import { laneProduct } from "../../../../backend/tile/programs/lanes/lane_product.ts";
import { winograd } from "../../../../backend/tile/programs/lanes/winograd.ts";
import {
  weightBlock,
  winogradWeights,
} from "../../../../backend/tile/programs/lanes/winograd_weights.ts";
import { enableGrad, type Tensor } from "../../../../mod.ts";
import "../../../opencl.ts"; // starts what listens to signals before any test
import { contractionOf, wideTarget } from "../../opencl/templates/chosen_template.ts";
import { changed } from "../changed.ts";
import { interpret, type Report } from "../interpreter.ts";
import { type Buffers, buffersOf, errorOf } from "../loop_buffers.ts";
import { convolved, of } from "./products.ts";

interface Found {
  readonly template: string;
  readonly kernel: LoopKernel;
  readonly mapping: LaneMapping;
}

function found(make: () => Tensor, target: Target): Found {
  const kernel = contractionOf(make, target), { template, plan } = contractionMatch(kernel, target);
  assert("mapping" in plan, `${template.name} has no mapping`);
  return { template: template.name, kernel: plan.kernel, mapping: (plan as LanePlan).mapping };
}

/** Runs a program, and writes what it gives where the kernel's output lies. */
function run({ kernel, mapping }: Found, change: Parameters<typeof changed>[1] = (s) => s) {
  let count = 0;
  const program = changed(laneProduct(kernel, mapping, () => `p${count++}`), change);
  const buffers = buffersOf(kernel), report = interpret(program, buffers);
  const faults = new Map(report.faults);
  const along = mapping.stores === "turned" ? mapping.rows[0]![0] : mapping.lane;
  const output = new Float32Array(buffers.o0!).fill(NaN);
  const order: number[] = [];
  for (const [index, value] of placed(kernel, kernel.outputs[0]!.index, report, along)) {
    if (!Number.isNaN(output[index])) faults.set("stored twice", 1);
    output[index] = value;
    order.push(index);
  }
  return { faults: [...faults.keys()], error: errorOf(kernel, buffers), order };
}

/** Results by their places in the output: of a vector, those lanes that count. */
function* placed(
  { outer }: LoopKernel,
  index: AffineExpr,
  { results }: Report,
  along: number,
): Generator<[index: number, value: number]> {
  const starts = Map.groupBy(results, ([key]) => key.slice(0, key.lastIndexOf(",")));
  for (const [start, lanes] of starts) {
    const at = start.split(",").map(Number);
    const first = outer.reduce((n, s, k) => n + coefficient(index, s) * at[k]!, index.offset);
    const counted = lanes.map(([key, value]) =>
      [Number(key.slice(start.length + 1)), value] as const
    );
    const left = Math.min(...counted.map(([lane]) => lane));
    for (const [lane, value] of counted) {
      if (lane - left < left) yield [first + (lane - left) * coefficient(index, along), value];
    }
  }
}

/** Products by the template that takes them. */
const cases: Readonly<Record<string, Readonly<Record<string, () => Tensor>>>> = {
  "register-tiled gemm": {
    "whole tiles": () => of([16, 8]).matmul(of([8, 32])),
    "odd sizes": () => of([13, 21]).matmul(of([21, 35])),
    "few columns": () => of([13, 21]).matmul(of([21, 7])),
    "columns far apart": () => of([70, 5]).matmul(of([5, 600])),
    "a transposed operand": () => of([70, 37]).matmul(of([45, 37]).transpose()),
    "rows side by side": () => of([70, 75]).transpose().matmul(of([70, 107])),
    "channels of a transposed convolution": () =>
      of([2, 6, 5, 19]).convTranspose2d(of([6, 9, 2, 2]), { stride: 2 }),
  },
  "inner-product gemm": {
    "rows of both operands": () => of([7, 200]).matmul(of([5, 200]).transpose()),
  },
  "direct convolution": {
    "a convolution of one channel": () => convolved([2, 1, 9, 19], [5, 1, 3, 3], { padding: 1 }),
    "a convolution of short lines": () => convolved([2, 3, 6, 14], [5, 3, 3, 3], { padding: 1 }),
    "a convolution in steps": () =>
      convolved([1, 3, 11, 41], [9, 3, 3, 3], { padding: 1, stride: 2 }),
  },
  "channel-lane convolution": {
    "a convolution of many channels": () => convolved([2, 5, 5, 7], [37, 5, 5, 5], { padding: 2 }),
  },
  "depthwise convolution": {
    "a depthwise convolution": () =>
      convolved([2, 3, 9, 19], [3, 1, 3, 3], { padding: 1, groups: 3 }),
    "a depthwise convolution in steps": () =>
      convolved([1, 4, 11, 19], [4, 1, 3, 3], { padding: 1, groups: 4, stride: 2 }),
  },
  "weight-gradient convolution": {
    "the gradient of a weight": () => weightGradient([2, 3, 8, 13], [10, 3, 3, 3], { padding: 1 }),
  },
  "depthwise weight gradient": {
    "the gradient of a depthwise weight": () =>
      weightGradient([2, 3, 9, 19], [3, 1, 3, 3], { padding: 1, groups: 3 }),
  },
};
const makes: Readonly<Record<string, () => Tensor>> = Object.assign({}, ...Object.values(cases));

/** The gradient of a convolution's weight. */
function weightGradient(x: number[], w: number[], options: Record<string, number>): Tensor {
  const weight = of(w);
  weight.requiresGrad = true;
  const y = enableGrad(() => of(x).conv2d(weight, options));
  y.backward(of(y.shape.slice()));
  return weight.grad!;
}

Deno.test("laneProduct has the values of the plain evaluator, each stored once", () => {
  for (const [template, products] of Object.entries(cases)) {
    for (const [name, make] of Object.entries(products)) {
      const product = found(make, wideTarget), { faults, error } = run(product);
      assertEquals(product.template, template, name);
      assertEquals(faults, [], name);
      assert(error <= 1e-5, `${name}: off by ${error}`);
    }
  }
});

Deno.test("laneProduct has channels as rows where a phase of a transposed convolution is last", () => {
  const { kernel, mapping } = found(makes["channels of a transposed convolution"]!, wideTarget);
  assertEquals(kernel.sizes[mapping.rows[0]![0]], 9);
});

Deno.test("laneProduct packs the elements that are read, where vectors are longer than lines", () => {
  const { mapping } = found(makes["a convolution of short lines"]!, wideTarget);
  assertEquals(mapping.boxes.b?.row, 14 + 2);
});

Deno.test("laneProduct asks once for a tile, and reads scalars again for each row of vectors", () => {
  for (const name of ["a convolution of short lines", "a depthwise convolution in steps"]) {
    const product = found(makes[name]!, wideTarget);
    const mapping: LaneMapping = { ...product.mapping, asksOnce: true, reloads: "each" };
    const { faults, error } = run({ ...product, mapping });
    assertEquals(faults, [], name);
    assert(error <= 1e-5, `${name}: off by ${error}`);
  }
});

Deno.test("laneProduct gives a weight's gradient as it lies in memory, whose rows fill a cache's sets", () => {
  const { order } = run(found(makes["the gradient of a weight"]!, wideTarget));
  assertEquals(order, Array.from({ length: 10 * 3 * 9 }, (_, k) => k));
});

Deno.test("laneProduct: the interpreter sees tests that are missing, and operands that are not packed", () => {
  const open = run(found(makes["odd sizes"]!, wideTarget), (s) => s.s === "if" ? s.body : s);
  assert(open.faults.some((fault) => fault.endsWith("twice")));
  const convolution = found(makes["a convolution in steps"]!, wideTarget);
  const { faults } = run(convolution, (s) => s.s === "pack" ? null : s);
  assert(faults.some((fault) => fault.startsWith("read before write")));
  const shifted = run(convolution, (s) => s.s === "pack" ? { ...s, low: add(s.low, 1) } : s);
  assert(shifted.error > 1e-3);
});

Deno.test("winograd has the values of the plain evaluator, each stored once, of transformed weights", () => {
  const make = () => convolved([2, 9, 7, 16], [17, 9, 3, 3], { padding: 1 });
  const kernel = contractionOf(make, wideTarget), found = convolutionLoops(kernel)!;
  const loops = { ...found, output: found.output!, input: found.input! };
  const tile = { channels: 8, vectors: 2 };
  const share = { rows: 2, width: 8, images: 2, lanes: 16, channels: 32, tile };
  const nameOf = () => {
    throw new Error("sizes are numbers of the text");
  };
  const weightBytes = 4 * 2 * weightBlock(9);
  const buffers: Buffers = { ...buffersOf(kernel), o1: new ArrayBuffer(weightBytes) };
  const weights = interpret(winogradWeights(kernel, loops, nameOf), buffers);
  assertEquals([...weights.faults], []);
  const report = interpret(winograd(kernel, loops, share, true, nameOf), buffers);
  assertEquals([...report.faults], []);
  const output = new Float32Array(buffers.o0!).fill(NaN);
  for (
    const [index, value] of placed(kernel, kernel.outputs[0]!.index, report, loops.column.position)
  ) {
    assert(Number.isNaN(output[index]), `stored twice: ${index}`);
    output[index] = value;
  }
  const error = errorOf(kernel, buffers);
  assert(error <= 1e-5, `off by ${error}`);
});
