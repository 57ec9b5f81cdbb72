/** Minimal filtering as the interpreter runs it: sizes that tiles, groups and panels divide, and others. */
import { assert, assertEquals } from "@std/assert";
import { planOf } from "../../../../backend/cpu/wasm/winograd/filtering_runner.ts";
import type { LoopKernel } from "../../../../backend/kernel/kernel.ts";
import { windowProduct } from "../../../../backend/kernel/forms/window_product.ts";
import type { TileKernel } from "../../../../backend/tile/language/statements.ts";
import {
  filteringOf,
  GROUP_ROOM,
  GROUP_ROWS,
  planeOf,
} from "../../../../backend/tile/programs/lanes/filtering_form.ts";
import {
  filteredConvolution,
  filteredKernels,
} from "../../../../backend/tile/programs/lanes/filtering_convolution.ts";
import {
  gradientResults,
  gradientSums,
} from "../../../../backend/tile/programs/lanes/filtering_gradient.ts";
import { enableGrad, type Tensor } from "../../../../mod.ts";
import "../../../opencl.ts"; // starts what listens to signals before any test
import { contractionOf, wideTarget } from "../../opencl/templates/chosen_template.ts";
import { changed } from "../changed.ts";
import { interpret } from "../interpreter.ts";
import { buffersOf, errorOf } from "../loop_buffers.ts";
import { convolved, of } from "./products.ts";

type Change = Parameters<typeof changed>[1];

/** Runs the programs of a product with as little room as it needs: their faults, and the error of the result. */
function run(kernel: LoopKernel, threads = 2, change: Change = (s) => s) {
  const product = windowProduct(kernel, kernel.outputs[0]!.index)!, { form } = filteringOf(product);
  const { steps, numbers, between, findings } = planOf(product, threads);
  const number = (name: string): number => numbers[name]!;
  const programs = (): TileKernel[] => {
    if (product.isGradient) {
      const tiles = number("partTiles");
      const image = planeOf(tiles * number("pitch"));
      const gradient = planeOf(tiles * number("groups") * GROUP_ROOM);
      return [gradientSums(form, { image, gradient }), gradientResults(form)];
    }
    const [channels, held, pitch] = ["channels", "held", "pitch"].map(number) as [
      number,
      number,
      number,
    ];
    const isFused = steps.length === 1;
    const room = {
      columns: planeOf(channels * pitch),
      products: planeOf(held * GROUP_ROWS * pitch),
      kernels: isFused ? planeOf(held * channels * GROUP_ROOM) : null,
    };
    return [...isFused ? [] : [filteredKernels(form)], filteredConvolution(form, room)];
  };
  const own = buffersOf(kernel);
  const buffers = {
    ...{ a0: own[`a${product.image.input}`]!, a1: own[`a${product.other.input}`]!, o0: own.o0! },
    o1: new ArrayBuffer(4 * between),
    o2: new ArrayBuffer(4 * findings),
  };
  const faults = programs().flatMap((program, k) => {
    const sizes = program.sizes.map(({ name }) => ({ name, value: numbers[name] ?? 0 }));
    const report = interpret(
      changed({ ...program, sizes, groups: steps[k]!.groups }, change),
      buffers,
    );
    return [...report.faults.keys()];
  });
  return { faults, error: errorOf(kernel, own), isFused: steps.length === 1 };
}

const kernelOf = (make: () => Tensor): LoopKernel => contractionOf(make, wideTarget);

/** The gradient of kernels. */
function gradientOf(x: number[], w: number[]): LoopKernel {
  return kernelOf(() => {
    const weight = of(w);
    weight.requiresGrad = true;
    const y = enableGrad(() => of(x).conv2d(weight));
    y.backward(of(y.shape.slice()));
    return weight.grad!;
  });
}

Deno.test("filteredConvolution has the values of the plain evaluator", () => {
  const cases = [
    { name: "whole tiles", x: [2, 2, 18, 18], w: [6, 2, 3, 3], threads: 2, faults: [] },
    { name: "kernels with tiles", x: [2, 2, 18, 18], w: [7, 2, 3, 3], threads: 1, faults: [] },
    { name: "odd sizes", x: [3, 3, 11, 17], w: [13, 3, 3, 3], threads: 2 },
  ];
  // Behind the last tile of a panel that one is stored again, with the same values.
  for (const { name, x, w, threads, faults = ["result given twice"] } of cases) {
    const found = run(kernelOf(() => convolved(x, w, {})), threads);
    assertEquals(found.isFused, threads === 1, name);
    assertEquals(found.faults.filter((fault) => !faults.includes(fault)), [], name);
    assert(found.error <= 1e-5, `${name}: off by ${found.error}`);
  }
});

Deno.test("gradientSums and gradientResults have the values of the plain evaluator", () => {
  for (const [x, w] of [[[2, 8, 18, 18], [6, 8, 3, 3]], [[3, 5, 11, 17], [13, 5, 3, 3]]] as const) {
    const { faults, error } = run(gradientOf([...x], [...w]));
    assertEquals(faults, [], `${x}`);
    // Terms of up to 9 nearly cancel in these sums.
    assert(error <= 5e-4, `${x}: off by ${error}`);
  }
});

Deno.test("filteredConvolution without a store is seen", () => {
  const kernel = kernelOf(() => convolved([2, 2, 18, 18], [6, 2, 3, 3], {}));
  const { error } = run(kernel, 2, (s) => s.s === "store" && s.place.buffer === "o0" ? null : s);
  assert(error > 0.1, `${error}`);
});
