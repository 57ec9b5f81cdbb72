/**
 * The backend of each device, made on first use. It stands above all backends: what computes
 * is given one and imports the interface only.
 */
import { setActiveDevice, setDeviceOpener, unregisterDeviceMemory } from "../memory/mod.ts";
import type { Backend } from "./execution/backend.ts";
import { HostBaseline } from "./cpu/baseline_kernels.ts";
import { CPUBackend } from "./cpu/cpu_backend.ts";
import { type BackendName, DeviceHandle } from "./devices/device_handle.ts";
import { manager } from "./devices/devices.ts";
import { OpenCLBackend } from "./opencl/runtime/opencl_backend.ts";

/** Constructor of each backend for a device. */
const constructors: Readonly<Record<BackendName, (device: DeviceHandle) => Backend>> = {
  cl: (device) => new OpenCLBackend(device, () => new HostBaseline()),
  cpu: (device) => new CPUBackend(device),
};

const backends = new Map<DeviceHandle, Backend>();

/**
 * The backend that computes on a device.
 *
 * @param handle The device; by default the active one.
 * @throws {OpenCLError} When the driver refuses a context or a queue.
 */
export function backendOf(handle: DeviceHandle = manager.active): Backend {
  let backend = backends.get(handle);
  if (backend === undefined) {
    backend = constructors[handle.backend](handle);
    backends.set(handle, backend);
  }
  return backend;
}

/** Every backend that was made. */
export const allBackends = (): Backend[] => [...backends.values()];

/** Forgets every backend; the caller ends them. */
export function takeBackends(): Backend[] {
  const taken = [...backends.values()];
  for (const handle of backends.keys()) unregisterDeviceMemory(handle);
  backends.clear();
  return taken;
}

// The memory facade knows devices only as objects: it asks here for the one that is active, and for
// the memory of one that has not been used yet.
setActiveDevice(() => manager.active);
setDeviceOpener((device) => {
  if (device instanceof DeviceHandle) backendOf(device);
});
