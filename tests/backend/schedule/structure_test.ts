import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import { dtypes } from "../../../backend/graph/dtype.ts";
import { Node } from "../../../backend/graph/node.ts";
import type { LoopKernel } from "../../../backend/kernel/kernel.ts";
import { structureOf } from "../../../backend/kernel/structure.ts";
import type { PlanningDevice } from "../../../backend/kernel/template.ts";
import { generateKernel, planKernel } from "../../../backend/opencl/templates/generate.ts";
import type { Generated } from "../../../backend/opencl/codegen/generated.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { apply, constant, cpu, gpu, leaf, map, product, reduce } from "./nodes.ts";

/** Computations of a matrix of so many rows and columns, and a number. */
const makers: readonly ((rows: number, columns: number, value: number) => Node)[] = [
  (n, m, v) => map("mul", leaf([n * m]), constant(v, [n * m])),
  (n, m, v) => map("add", map("mul", leaf([n, m]), constant(v, [n, m])), leaf([n, m])),
  (n, m, v) => map("exp", constant(v, [n, m])),
  (n, m) => map("tanh", apply({ kind: "expand" }, leaf([1, m]), [n, m])),
  (n, m) => map("neg", apply({ kind: "permute", axes: [1, 0] }, leaf([n, m]), [m, n])),
  (n, m) =>
    map("abs", apply({ kind: "slice", starts: [1, 0], steps: [1, 1] }, leaf([n + 1, m]), [n, m])),
  (n, m, v) =>
    map("neg", apply({ kind: "pad", before: [1, 2], value: v }, leaf([n, m]), [n + 2, m + 3])),
  (n, m) => map("add", new Node({ kind: "iota" }, [], [n * m], "float32"), leaf([n * m])),
  (n, m) => reduce("sum", leaf([n, m]), 1),
  (n, m) => reduce("sum", map("exp", leaf([n, m])), 0),
  (n, m) => reduce("max", leaf([n, m]), 1),
  (n, m) => reduce("argmin", leaf([n, m]), 1),
  (n, m) => {
    const x = leaf([n, m]);
    const means = apply({ kind: "reshape" }, reduce("sum", x, 1), [n, 1]);
    return map("sub", x, apply({ kind: "expand" }, means, [n, m]));
  },
  (n, m) => map("add", product(leaf([n, m]), leaf([m, 64])), leaf([n, 64])),
  (n, m) => product(leaf([n, m]), apply({ kind: "permute", axes: [1, 0] }, leaf([n, m]), [m, n])),
  (n, m, v) => map("mul", product(leaf([128, n]), leaf([n, m])), constant(v, [128, m])),
  (n, m) => reduce("sum", leaf([n, m, 3]), 1, 2),
  (n, m) => reduce("sum", leaf([n, 3, m]), 1),
];

interface Planned {
  readonly kernel: LoopKernel;
  readonly key: string | null;
  readonly text: Generated;
}

/** The kernels of a computation on a device, with what planning and writing make of them. */
function kernelsOf(node: Node, { target }: PlanningDevice): Planned[] {
  const plan = schedule([node], { device: { target: { ...target, sharing: null }, planKernel } });
  return plan.kernels.flatMap(({ kernel }) => {
    if (kernel.kind !== "loop") return [];
    const { name, variant } = planKernel(kernel, target);
    const key = variant && `${name}|${variant.key}|${structureOf(kernel).key}`;
    return [{ kernel, key, text: generateKernel(kernel, target)[0]! }];
  });
}

const lengths = [1, 2, 3, 4, 7, 15, 16, 17, 63, 64, 65, 130, 255, 256, 1000, 5000, 9000];
const sizes = fc.constantFrom(...lengths);
const values = fc.constantFrom(0, -0, 1, 0.5, 2, 3, 0.1, NaN, Infinity, -1);
const input = fc.record({
  maker: fc.nat(makers.length - 1),
  rows: sizes,
  columns: sizes,
  value: values,
});

const matrixUnits: PlanningDevice = {
  planKernel,
  target: { ...gpu.target, matrixUnits: "mma", warps: true },
};
const devices = [["a CPU", cpu], ["a GPU", gpu], ["matrix units", matrixUnits]] as const;

for (const [name, device] of devices) {
  Deno.test(`kernels of equal structure have one text on ${name}`, () => {
    const known = new Map<string, Generated>();
    let shared = 0;
    fc.assert(
      fc.property(input, ({ maker, rows, columns, value }) => {
        for (const { key, text } of kernelsOf(makers[maker]!(rows, columns, value), device)) {
          if (key === null) continue;
          const other = known.get(key);
          known.set(key, text);
          if (!other) continue;
          shared++;
          assertEquals([text.source, text.local], [other.source, other.local]);
          assertEquals([text.global.length, text.isWide], [1, false]);
        }
      }),
      { numRuns: 600 },
    );
    assert(shared > 100, `${shared} pairs`);
  });

  Deno.test(`kernels of short rows have not the variant of long ones on ${name}`, () => {
    const [short, long] = [2, 130].map((rows) => kernelsOf(makers[13]!(rows, 3, 1), device)[0]!);
    assert(short!.key === null || short!.key !== long!.key, short!.key!);
  });

  Deno.test(`planning counts no fewer bytes of arguments than a kernel has on ${name}`, () => {
    fc.assert(
      fc.property(input, ({ maker, rows, columns, value }) => {
        for (const { kernel, text } of kernelsOf(makers[maker]!(rows, columns, value), device)) {
          const { variant } = planKernel(kernel, device.target);
          if (variant === null) continue;
          const { numberBytes, copiedBytes } = structureOf(kernel);
          const counted = numberBytes + copiedBytes * (variant.copies - 1) + 4 * variant.numbers;
          const bytes = text.parameters.reduce(
            (sum, p) => sum + (p.kind === "constant" ? Math.max(4, dtypes[p.dtype].bytes) : 4),
            0,
          );
          assert(counted >= bytes, `${counted} of ${bytes} bytes in ${text.source}`);
        }
      }),
      { numRuns: 300 },
    );
  });
}

Deno.test("kernels that differ in more than buffers, sizes and numbers have other structures", () => {
  const keyOf = (node: Node): string => {
    const { kernel } = schedule([node]).kernels[0]!;
    return structureOf(kernel as LoopKernel).key;
  };
  const scaled = (value: number, n = 8) => map("mul", leaf([n]), constant(value, [n]));
  assertEquals(keyOf(scaled(3)), keyOf(scaled(7, 100)));
  assert(keyOf(scaled(3)) !== keyOf(scaled(2)));
  assert(keyOf(scaled(0)) !== keyOf(scaled(-0)));
  assert(keyOf(scaled(3)) !== keyOf(map("add", leaf([8]), constant(3, [8]))));
  const twice = (a: number, b: number) => map("add", scaled(a), constant(b, [8]));
  // Numbers that are equal share an argument.
  assert(keyOf(twice(3, 3)) !== keyOf(twice(3, 4)));
  assertEquals(keyOf(twice(3, 5)), keyOf(twice(3, 4)));
});
