/** Laws on a device without double precision: the device for tests, which hides that it has it. */
import { assertEquals, assertRejects, assertStringIncludes, assertThrows } from "@std/assert";
import { backendOf, type DType } from "../../../backend/internal.ts";
import {
  compile,
  DTypeError,
  loadNpy,
  loadSafetensors,
  manager,
  profiler,
  saveNpy,
  saveSafetensors,
  Tensor,
  withDevice,
} from "../../../mod.ts";
import { testOpenCL } from "../../opencl.ts";

async function withoutDoubles(fn: () => void | Promise<void>): Promise<void> {
  const handle = manager.default("cl");
  const types = backendOf(handle).capabilities.dtypes as Set<DType>;
  const hasDoubles = types.delete("float64");
  try {
    await withDevice(handle, fn);
  } finally {
    if (hasDoubles) types.add("float64");
  }
}

const doubles = Float64Array.of(1, 2, 3);
const cpu = { device: "cpu", dtype: "float64" } as const;

/** Each way into float64. */
const ways: Readonly<Record<string, (x: Tensor) => unknown>> = {
  "cast": (x) => x.cast("float64"),
  "cast in a compiled function": (x) => compile((y: Tensor) => y.cast("float64").sum())(x),
  "cast of a gradient's tensor": (x) => x.mul(2).cast("float64").sum().backward(),
  "fromHost of doubles": () => Tensor.fromHost(doubles),
  "fromHost with a type": () => Tensor.fromHost([1, 2], { dtype: "float64" }),
  "pinned and persistent": () =>
    Tensor.fromHost(doubles, { pinMemory: true, persistent: true, dtype: "float64" }),
  "zeros": () => Tensor.zeros([2], { dtype: "float64" }),
  "eye": () => Tensor.eye(2, { dtype: "float64" }),
  "arange": () => Tensor.arange(0, 1, 0.1, { dtype: "float64" }),
  "arange of whole numbers": () => Tensor.arange(0, 5, 1, { dtype: "float64" }),
  "linspace": () => Tensor.linspace(0, 1, 4, { dtype: "float64" }),
  "rand": () => Tensor.rand([2], { dtype: "float64" }),
  "randn": () => Tensor.randn([2], { dtype: "float64" }),
  "to": () => Tensor.fromHost(doubles, cpu).to("cl"),
};

testOpenCL("every way into float64 names the device and the remedy, builds no kernel", () => {
  return withoutDoubles(() => {
    const x = Tensor.ones([3], { requiresGrad: true }).realize();
    const { programsBuilt } = profiler.counters(), { deviceName } = manager.default("cl");
    for (const make of Object.values(ways)) {
      const { message } = assertThrows(() => make(x), DTypeError, "no double precision");
      for (const part of [deviceName, '"float32"', '"cpu"']) assertStringIncludes(message, part);
    }
    assertEquals(profiler.counters().programsBuilt, programsBuilt);
  });
});

testOpenCL("files of float64 name the device and the remedy, and load on the CPU", async () => {
  const folder = await Deno.makeTempDir();
  const npy = `${folder}/x.npy`, safetensors = `${folder}/x.safetensors`;
  const x = Tensor.fromHost(doubles, cpu);
  await saveNpy(npy, x);
  await saveSafetensors(safetensors, { x });
  await withoutDoubles(async () => {
    await assertRejects(() => loadNpy(npy), DTypeError, "no double precision");
    await assertRejects(() => loadSafetensors(safetensors), DTypeError, "no double precision");
    assertEquals((await loadNpy(npy, { device: "cpu" })).toHostSync(), doubles);
  });
  await Deno.remove(folder, { recursive: true });
});

testOpenCL("arange and linspace have NumPy's numbers where kernels have no doubles", () => {
  return withoutDoubles(() => {
    const tenths = Float32Array.from({ length: 3000 }, (_, k) => k * 0.1);
    assertEquals(Tensor.arange(0, 299.95, 0.1).toHostSync(), tenths);
    assertEquals(compile(() => Tensor.arange(0, 299.95, 0.1))().toHostSync(), tenths);
    const whole = Tensor.arange(0.25, 3, 0.5, { dtype: "int32" });
    assertEquals(whole.toHostSync(), Int32Array.of(0, 0, 1, 1, 2, 2));
    const step = (0.7 - 0.1) / 7,
      place = (k: number) => k < 4 ? k * step + 0.1 : (k - 7) * step + 0.7;
    const places = Float32Array.from({ length: 8 }, (_, k) => place(k));
    assertEquals(Tensor.linspace(0.1, 0.7, 8).toHostSync(), places);
    const ends = Tensor.linspace(-3, 7, 1001, { requiresGrad: true });
    assertEquals([ends.requiresGrad, ends.dtype], [true, "float32"]);
    assertEquals(Tensor.arange(0, 0, 0.1).shape, [0]);
  });
});
