/** Backends and cache folders of their own, for tests of what lasts from one start to the next. */
import { assertEquals } from "@std/assert";
import { WITHOUT_HEADER } from "../../../backend/opencl/codegen/builtins.ts";
import type { BinaryCache } from "../../../backend/opencl/runtime/binary_cache.ts";
import { type KeepBinaries, Programs } from "../../../backend/opencl/runtime/programs.ts";
import { helpersEnded } from "../../../backend/opencl/building/build_helpers.ts";
import { OpenCLBackend } from "../../../backend/opencl/runtime/opencl_backend.ts";
import type { DeviceType } from "../../../backend/devices/device_handle.ts";
import { Program } from "../../../ffi/mod.ts";
import { DeviceHandle, manager, withDevice } from "../../../mod.ts";
import { isPoCL, testOpenCL } from "../../opencl.ts";
import { inFolder } from "../../temporary_folder.ts";
import { setVariables } from "../../variables.ts";

/**
 * Runs while PoCL compiles without optimizing. With it a kernel of a GPU, whose work-items wait for each
 * other, takes 0.1 to 5 s instead of 0.03 to 0.4, and nobody runs what PoCL's optimizer makes of it.
 */
export async function withoutOptimizing<T>(fn: () => Promise<T>): Promise<T> {
  using _variables = setVariables({ POCL_EXTRA_BUILD_FLAGS: "-cl-opt-disable" });
  return await fn();
}

/** Runs with a backend as another start of a program would make it, on the device for tests. */
export function withFreshBackend(
  fn: (backend: OpenCLBackend) => void | Promise<void>,
  deviceType?: DeviceType,
): Promise<void> {
  const run = (): Promise<void> => freshBackend(fn, deviceType);
  return deviceType === "gpu" ? withoutOptimizing(run) : run();
}

async function freshBackend(
  fn: (backend: OpenCLBackend) => void | Promise<void>,
  deviceType?: DeviceType,
): Promise<void> {
  const known = manager.default("cl"), { platformName, deviceName, clDevice } = known;
  const names = { platformName, deviceName, deviceType: deviceType ?? known.deviceType };
  const backend = new OpenCLBackend(new DeviceHandle({ ...names, backend: "cl" }, "cl", clDevice));
  const { queue, context } = backend.device;
  try {
    await fn(backend);
  } finally {
    backend.dispose();
    queue!.release();
    context!.release();
  }
}

/** Runs in a folder that processes use which build programs: drivers may build one at a time. */
export const withBuildFolder: typeof inFolder = (fn) =>
  inFolder(async (folder) => {
    try {
      await fn(folder);
    } finally {
      await helpersEnded();
    }
  });

/** Runs with an empty cache folder. */
export const withCacheFolder: typeof inFolder = (fn) =>
  withBuildFolder(async (folder) => {
    using _variables = setVariables({ NETCL_CACHE_DIR: folder });
    await fn(folder);
  });

const handles = new Map<DeviceType, DeviceHandle>();

/**
 * Runs on the device for tests, with a backend that takes it for a device of another type. A process has one of
 * each type: PoCL reads its library for each context (0.3 s), and tests share kernels.
 */
export function withDeviceType(deviceType: DeviceType, fn: () => Promise<void>): Promise<void> {
  const { platformName, deviceName, clDevice } = manager.default("cl");
  const names = { platformName, deviceName, deviceType, backend: "cl" } as const;
  const handle = handles.getOrInsertComputed(
    deviceType,
    () => new DeviceHandle(names, "cl", clDevice),
  );
  const run = (): Promise<void> => withDevice(handle, fn);
  return deviceType === "gpu" ? withoutOptimizing(run) : run();
}

/** `testOpenCL` with a backend that takes the device for a GPU. */
export function testGPU(name: string, fn: () => Promise<void>): void {
  testOpenCL(name, () => withDeviceType("gpu", fn));
}

/** `testOpenCL` with an empty cache folder. */
export function testWithCache(name: string, fn: (folder: string) => void | Promise<void>): void {
  testOpenCL(name, () => withCacheFolder(fn));
}

/** Programs of the device for tests, which are there until they are disposed of. */
export function programsOf(
  cache: BinaryCache | null,
  keepBinaries: KeepBinaries = "at once",
  buildsBeside?: boolean,
): Programs & Disposable {
  const { context, clDevice } = manager.default("cl");
  const programs = new Programs(context!, clDevice!, cache, keepBinaries, buildsBeside);
  return Object.assign(programs, { [Symbol.dispose]: () => programs.dispose() });
}

/** The options of all builds meanwhile. */
export function watchedBuilds(): { readonly options: string[] } & Disposable {
  const options: string[] = [], { build } = Program.prototype;
  Program.prototype.build = function (given = "") {
    options.push(given);
    return build.call(this, given);
  };
  return {
    options,
    [Symbol.dispose]() {
      Program.prototype.build = build;
    },
  };
}

/** Runs, and asserts that the library's programs find declared what they call: no driver reads its header for them. */
export function withDeclarations<T>(fn: () => T): T {
  using watched = watchedBuilds();
  const result = fn();
  if (isPoCL) assertEquals(watched.options.filter((each) => !each.includes(WITHOUT_HEADER)), []);
  return result;
}
