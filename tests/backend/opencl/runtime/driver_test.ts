/** Drivers by their platforms' names, and the options that follow from them. */
import { assert, assertEquals } from "@std/assert";
import {
  buildOptions,
  driverOf,
  indispensable,
  optionsOfText,
} from "../../../../backend/opencl/runtime/driver.ts";
import type { Device } from "../../../../ffi/mod.ts";
import { openCLDevice, testOpenCL } from "../../../opencl.ts";
import { programsOf, watchedBuilds } from "../fixture.ts";

const growing = "-cl-intel-enable-auto-large-GRF-mode";

/** A device of a platform. */
const on = (name: string, type = "gpu"): Device =>
  ({ type, platform: { name }, extensions: [] }) as unknown as Device;

/** A kernel of the library. */
const ours = (buildOptions: string) => ({ buildOptions, batched: [true] });

Deno.test("driverOf lets Intel's compiler for GPUs give kernels more registers, and no other", () => {
  for (const name of ["Intel(R) OpenCL Graphics", "Intel(R) OpenCL HD Graphics"]) {
    const driver = driverOf(on(name));
    assert(buildOptions(driver).split(" ").includes(growing), name);
    assertEquals(optionsOfText(driver, ours("-DA")), `-cl-std=CL1.2 ${growing} -DA`);
    assertEquals(optionsOfText(driver, ours("-cl-std=CL2.0")), `${growing} -cl-std=CL2.0`);
    // A user's groups may need more threads than there are then.
    assertEquals(optionsOfText(driver, { buildOptions: "", batched: null }), "-cl-std=CL1.2");
  }
  const others = [
    ...["NVIDIA CUDA", "AMD Accelerated Parallel Processing", "rusticl"].map((name) => on(name)),
    ...[on("Intel(R) OpenCL", "cpu"), on("Portable Computing Language", "cpu")],
  ];
  for (const device of others) {
    const driver = driverOf(device);
    assert(!buildOptions(driver).includes("intel"), device.platform.name);
    assertEquals(indispensable(optionsOfText(driver, ours(""))), "-cl-std=CL1.2");
    assertEquals(optionsOfText(driver, { buildOptions: "", batched: null }), "-cl-std=CL1.2");
  }
});

Deno.test("indispensable options are those that every driver knows, and those that were given", () => {
  const given = '-DA="x  y" -cl-fast-relaxed-math';
  assertEquals(
    indispensable(optionsOfText(driverOf(on("Intel(R) OpenCL Graphics")), ours(given))),
    `-cl-std=CL1.2 ${given}`,
  );
});

/** Takes the device for tests for a GPU of Intel's. */
function takenForIntel(): Disposable {
  const device = openCLDevice.clDevice!;
  Object.defineProperty(device, "platform", {
    value: { name: "Intel(R) OpenCL Graphics" },
    configurable: true,
  });
  Object.defineProperty(device, "type", { value: "gpu", configurable: true });
  return {
    [Symbol.dispose]() {
      Reflect.deleteProperty(device, "platform");
      Reflect.deleteProperty(device, "type");
    },
  };
}

testOpenCL(
  "indispensable options are what programs are built with where a driver refuses others, of texts, too",
  () => {
    const isPoCL = openCLDevice.clDevice!.platform.name === "Portable Computing Language";
    using _intel = takenForIntel();
    using programs = programsOf(null);
    using watched = watchedBuilds();
    programs.build([{ source: "(global float* y) { y[0] = 1; }", label: "fill" }]);
    const source = "kernel void one(global float* y) { y[0] = 1; }";
    const none = { declaration: null, cpu: null, program: null };
    programs.custom({ name: "one", id: 0, source, ...ours(""), ...none }, source);
    const { options } = watched, tried = options.filter((each) => each.includes(growing));
    const without = options.filter((each) => !each.includes(growing));
    assertEquals(tried.length, 2);
    // A driver that knows the option builds at once.
    if (isPoCL || without.length > 0) assertEquals(without, tried.map(indispensable));
  },
);
