/**
 * The engine of each device, made on first use.
 */
import { setActiveDevice, setDeviceOpener, unregisterDeviceMemory } from "../../memory/mod.ts";
import type { Backend } from "../execution/backend.ts";
import { CPUBackend } from "../cpu/cpu_backend.ts";
import { DeviceHandle } from "./device_handle.ts";
import { manager } from "./devices.ts";
import { OpenCLBackend } from "../opencl/runtime/opencl_backend.ts";

const engines = new Map<DeviceHandle, Backend>();

/**
 * The engine that computes on a device.
 *
 * @param handle The device; by default the active one.
 * @throws {OpenCLError} When the driver refuses a context or a queue.
 */
export function backendOf(handle: DeviceHandle = manager.active): Backend {
  let engine = engines.get(handle);
  if (engine === undefined) {
    engine = handle.backend === "cl" ? new OpenCLBackend(handle) : new CPUBackend(handle);
    engines.set(handle, engine);
  }
  return engine;
}

/** Every engine that was made. */
export function allBackends(): Backend[] {
  return [...engines.values()];
}

/** Forgets every engine; the caller ends them. */
export function takeBackends(): Backend[] {
  const taken = [...engines.values()];
  for (const handle of engines.keys()) unregisterDeviceMemory(handle);
  engines.clear();
  return taken;
}

// The memory facade knows devices only as objects: it asks here for the one that is active, and for
// the memory of one that has not been used yet.
setActiveDevice(() => manager.active);
setDeviceOpener((device) => {
  if (device instanceof DeviceHandle) backendOf(device);
});
