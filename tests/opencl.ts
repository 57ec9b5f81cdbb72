/**
 * For tests that need an OpenCL device: where there is none they are left out, counted, and said to
 * be left out by `deno task test`. With CI=true a machine without OpenCL fails there.
 */
import { type BackendName, withDevice } from "../mod.ts";
import type { DeviceHandle } from "../backend/devices/device_handle.ts";
import { backendOf, manager, waitForCompiledKernels } from "../backend/internal.ts";
import { isOpenCLAvailable } from "../ffi/mod.ts";

/** True if this machine has an OpenCL platform. */
export const hasOpenCL: boolean = isOpenCLAvailable();

// Processes that help to build kernels on a GPU outlast the test that starts them, and would count as its leaks.
Deno.env.get("NETCL_BUILD_PROCESSES") ?? Deno.env.set("NETCL_BUILD_PROCESSES", "0");

// What is tested are a device's own kernels, not those that serve while they are compiled.
waitForCompiledKernels(true);

// The library, the queue and the signal listeners stay open for the life of the process: opened
// inside a test they would count as leaks of that test.
/** The OpenCL device for tests, open; never touched where there is none. */
export const openCLDevice: DeviceHandle = hasOpenCL ? manager.default("cl") : null!;
if (hasOpenCL) openCLDevice.queue!.finishSync();
backendOf(manager.default("cpu"));

/** True if the device is PoCL's: clang compiles for it, so slowly that others' kernels serve meanwhile. */
export const isPoCL: boolean = hasOpenCL &&
  manager.default("cl").platformName === "Portable Computing Language";

/** The backends that tests run on. */
const backends: readonly BackendName[] = ["cpu", "cl"];

/**
 * The backend whose tests an earlier run of this tree on this machine has passed, so that they need not run
 * again where something else is missing: NETCL_TESTED, which `.ci/run` sets.
 */
const tested: string | undefined = Deno.env.get("NETCL_TESTED");

/** True where a test is the same as in an earlier run: its backend is the active one, whatever is there. */
function isRepeated(backend: BackendName): boolean {
  return backend === tested;
}

/** True for a backend that this machine does not have, or that an earlier run has passed. */
export function ignoreOn(backend: BackendName): boolean {
  return isRepeated(backend) || backend === "cl" && !hasOpenCL;
}

/** `Deno.test` for what needs an OpenCL device, which is the active one. */
export function testOpenCL(name: string, fn: (t: Deno.TestContext) => void | Promise<void>): void {
  Deno.test(name, { ignore: !hasOpenCL }, (t) => withDevice("cl", () => fn(t)));
}

/** `testOpenCL` with that device as the active one. */
export function testOnOpenCL(name: string, fn: () => void | Promise<void>): void {
  testOpenCL(name, () => withDevice("cl", fn));
}

/** `Deno.test` where there are kernels in vectors, on CPU devices: others have their driver's functions. */
export function testVectors(name: string, fn: () => void): void {
  Deno.test(name, { ignore: !hasOpenCL || manager.default("cl").deviceType !== "cpu" }, fn);
}

/**
 * `Deno.test` once for each backend, whose device is the active one.
 *
 * @param name The backend's name is put behind it.
 */
export function testOnBackends(
  name: string,
  fn: (backend: BackendName, t: Deno.TestContext) => void | Promise<void>,
): void {
  for (const backend of backends) {
    Deno.test(
      `${name} (${backend})`,
      { ignore: ignoreOn(backend) },
      (t) => withDevice(backend, () => fn(backend, t)),
    );
  }
}

/** Runs a test on the built-in backend only: for what does not depend on a backend's kernels. */
export function testOnCPU(name: string, fn: (backend: "cpu") => void | Promise<void>): void {
  Deno.test(`${name} (cpu)`, { ignore: ignoreOn("cpu") }, () => withDevice("cpu", () => fn("cpu")));
}
