/**
 * Products on matrix units. What they compute is checked where a device has them (run by hand on one);
 * which kernels are chosen is checked everywhere.
 */
import { assert, assertEquals } from "@std/assert";
import { hasMma } from "../../../../backend/opencl/runtime/matrix_units.ts";
import { type DType, manager, setFloat32Precision, Tensor, withDevice } from "../../../../mod.ts";
import { convolution, numbers } from "./few_digits.ts";
import { hasOpenCL } from "../../../opencl.ts";
import { gpuTarget, templateOf } from "./chosen_template.ts";

const gpu = gpuTarget;

const of = (dtype: DType, ...shape: number[]) =>
  Tensor.full(shape, 1).realize().cast(dtype).realize();

Deno.test("Products of half types go to matrix units where a device has them, else to tiles", () => {
  for (const dtype of ["float16", "bfloat16"] as const) {
    const make = () => of(dtype, 64, 64).matmul(of(dtype, 64, 64));
    assertEquals(templateOf(make, gpu), "matrix-unit gemm");
    assertEquals(templateOf(make, { ...gpu, matrixUnits: null }), "local-memory gemm");
  }
});

Deno.test("Products of float32 go to matrix units from a size on, others to tiles of their type", () => {
  assertEquals(
    templateOf(() => of("float32", 256, 256).matmul(of("float32", 256, 256)), gpu),
    "matrix-unit gemm",
  );
  assertEquals(
    templateOf(() => of("float32", 16, 16).matmul(of("float32", 16, 16)), gpu),
    "local-memory gemm",
  );
  assertEquals(
    templateOf(() => of("int32", 64, 64).matmul(of("int32", 64, 64)), gpu),
    "local-memory gemm",
  );
});

Deno.test("Products go to warpgroups where a device has them, and operands have steps of 16 bytes", () => {
  const hopper = { ...gpu, warpgroups: true };
  const nameOf = (dtype: DType, m: number, k: number, n: number) =>
    templateOf(() => of(dtype, m, k).matmul(of(dtype, k, n)), hopper);
  assertEquals(nameOf("float16", 128, 64, 136), "warpgroup gemm");
  assertEquals(nameOf("bfloat16", 100, 72, 64), "warpgroup gemm");
  assertEquals(nameOf("float16", 128, 64, 137), "matrix-unit gemm");
  assertEquals(nameOf("float16", 63, 64, 136), "matrix-unit gemm");
  // Floats are written in parts first, which a small product does not pay for.
  assertEquals(nameOf("float32", 1024, 512, 1024), "warpgroup gemm");
  assertEquals(nameOf("float32", 256, 256, 256), "matrix-unit gemm");
});

/** A product of two operands of which one or both may be views. */
interface Case {
  readonly name: string;
  readonly make: (dtype: DType) => Tensor;
}

const matmuls: Case[] = [
  [64, 64, 64],
  [128, 128, 32],
  [200, 136, 88],
  [193, 137, 75],
  [1024, 96, 40],
  [33, 500, 1000],
  [130, 70, 4097],
  [600, 712, 1000],
].flatMap(([m, n, k]) => [
  { name: `${m}x${k}x${n}`, make: (t: DType) => numbers(t, m!, k!).matmul(numbers(t, k!, n!)) },
  {
    name: `${m}x${k}x${n}, both transposed`,
    make: (t: DType) => numbers(t, k!, m!).transpose().matmul(numbers(t, n!, k!).transpose()),
  },
]);

const others: Case[] = [
  {
    name: "a batch, its right operand transposed",
    make: (t) => numbers(t, 3, 5, 70, 64).matmul(numbers(t, 3, 5, 90, 64).transpose(-1, -2)),
  },
  {
    name: "heads in the middle",
    make: (t) => {
      const q = numbers(t, 4, 60, 3, 32).transpose(1, 2);
      return q.matmul(q.transpose(-1, -2));
    },
  },
  {
    name: "every second row, reversed columns",
    make: (t) => numbers(t, 300, 96).slice([null, null, 2]).matmul(numbers(t, 96, 80).flip([1])),
  },
  {
    name: "a bias, an activation, a residual",
    make: (t) => {
      const y = numbers(t, 150, 72).matmul(numbers(t, 72, 130)).add(numbers(t, 130)).relu();
      return y.add(numbers(t, 150, 130));
    },
  },
  {
    name: "a result that is stored transposed",
    make: (t) => numbers(t, 150, 72).matmul(numbers(t, 72, 130)).transpose().mul(2).add(0),
  },
  {
    name: "a convolution with padding",
    make: (t) => numbers(t, 4, 16, 20, 20).conv2d(numbers(t, 32, 16, 3, 3), { padding: 1 }),
  },
  ...(["image", "weight"] as const).map((part): Case => ({
    name: `the gradient of a convolution's ${part}`,
    make: convolution([4, 24, 19, 21], [40, 24, 3, 3], { padding: 1 }, part),
  })),
  ...(["value", "image", "weight"] as const).flatMap((part) =>
    [1, 2].map((stride): Case => ({
      name: `a convolution of many channels in steps of ${stride}: ${part}`,
      make: convolution([32, 64, 32, 30], [128, 64, 3, 3], { padding: 1, stride }, part),
    }))
  ),
  {
    name: "a convolution in steps of 2, groups",
    make: (t) =>
      numbers(t, 4, 32, 21, 19).conv2d(numbers(t, 64, 16, 3, 3), {
        padding: 1,
        stride: 2,
        groups: 2,
      }),
  },
];

const limits: Partial<Record<DType, number>> = { float32: 3e-6, float16: 2e-3, bfloat16: 1.6e-2 };

async function error(found: Tensor, wanted: Tensor): Promise<number> {
  const [a, b] = [await found.toHost(), await wanted.toHost()] as [Float32Array, Float32Array];
  let squares = 0, total = 0;
  for (let i = 0; i < a.length; i++) {
    squares += (a[i]! - b[i]!) ** 2;
    total += b[i]! ** 2;
  }
  return Math.sqrt(squares / total);
}

const device = hasOpenCL ? manager.default("cl") : null;
const ignore = !(device?.clDevice && hasMma(device.clDevice));

for (const dtype of ["float16", "bfloat16", "float32"] as const) {
  Deno.test(`Matrix units multiply ${dtype} as the built-in backend does`, { ignore }, async () => {
    for (const { name, make } of [...matmuls, ...others]) {
      const wanted = withDevice("cpu", () => make(dtype).cast("float32").realize());
      const found = withDevice("cl", () => make(dtype).cast("float32").realize());
      const e = await error(found, wanted);
      assert(e < limits[dtype]!, `${name} of ${dtype}: relative error ${e}`);
    }
  });
}

Deno.test(
  "Matrix units keep infinities, NaN and the largest numbers of float32",
  { ignore },
  () =>
    withDevice("cl", async () => {
      const b = new Float32Array(256 * 256);
      for (let i = 0; i < 256; i++) b[i * 256 + i] = 1;
      const times = async (row: Float32Array<ArrayBuffer>) =>
        await Tensor.fromHost(row, { shape: [256, 256] })
          .matmul(Tensor.fromHost(b, { shape: [256, 256] })).toHost("float32");
      for (const value of [Infinity, -Infinity, NaN]) {
        const out = await times(Float32Array.from({ length: 256 * 256 }, (_, i) => i ? 1 : value));
        assert(Object.is(out[0], value) || Number.isNaN(value) && Number.isNaN(out[0]!));
        assert(Number.isNaN(out[1]!), "0 times infinity");
        assertEquals(out[256], 1);
      }
      const row = new Float32Array(256 * 256);
      row.set([3.4028234663852886e38, 1e-30, 1 / 3], 0);
      const kept = await times(row);
      assertEquals([...kept.slice(0, 3)], [...row.slice(0, 3)].map((v) => Math.fround(v)));
    }),
);

Deno.test("setFloat32Precision(high) multiplies in TF32", { ignore }, async () => {
  const make = () => numbers("float32", 256, 256).matmul(numbers("float32", 256, 256));
  const wanted = withDevice("cpu", () => make().realize());
  try {
    setFloat32Precision("high");
    const e = await error(withDevice("cl", () => make().realize()), wanted);
    assert(e > 1e-6 && e < 1e-3, `relative error ${e}`);
  } finally {
    setFloat32Precision("highest");
  }
});
