import type { DeviceMemory } from "./device_memory.ts";

/** The memory of a device of any kind. */
// deno-lint-ignore no-explicit-any -- devices of every kind of memory are registered side by side
export type AnyDeviceMemory = DeviceMemory<any>;

const memories = new Map<object, AnyDeviceMemory>();
const watchers = new Set<(memory: AnyDeviceMemory) => void>();
let activeDevice: (() => object) | null = null;
let openDevice: ((device: object) => void) | null = null;

/**
 * Makes a device known to {@linkcode memory}.
 *
 * @param device Any object; the same one is given to `memory.stats(device)`.
 * @param memory Its memory.
 */
export function registerDeviceMemory(device: object, memory: AnyDeviceMemory): void {
  const isNew = !new Set(memories.values()).has(memory);
  memories.set(device, memory);
  if (isNew) { for (const watcher of watchers) watcher(memory); }
}

/** Makes a device unknown again. */
export function unregisterDeviceMemory(device: object): void {
  memories.delete(device);
}

/** Says which device `memory` means where none is named. */
export function setActiveDevice(resolver: () => object): void {
  activeDevice = resolver;
}

/** Says how a device that has no memory yet gets one: `open` registers it, or does nothing. */
export function setDeviceOpener(open: (device: object) => void): void {
  openDevice = open;
}

/**
 * The memory of a registered device.
 *
 * @param device The device; default: the active one.
 * @throws {TypeError} When it is not registered.
 */
export function deviceMemoryOf(device?: object): AnyDeviceMemory {
  const key = device ?? activeDevice?.();
  if (key === undefined) {
    throw new TypeError("No device is active: pass one, or ask for a device first");
  }
  if (typeof key !== "object" || key === null) {
    throw new TypeError(
      `Cannot find the memory of ${typeof key} "${key}": pass a device handle, such as manager.active`,
    );
  }
  if (!memories.has(key)) openDevice?.(key);
  const memory = memories.get(key);
  if (memory === undefined) {
    throw new TypeError(
      "The device has no memory that is known: it was never used, or is shut down",
    );
  }
  return memory;
}

/** The memories of all registered devices. */
export function registeredMemories(): AnyDeviceMemory[] {
  return [...new Set(memories.values())];
}

/** Calls back for every memory that is registered from now on. */
export function watchRegistrations(watcher: (memory: AnyDeviceMemory) => void): Disposable {
  watchers.add(watcher);
  return { [Symbol.dispose]: () => void watchers.delete(watcher) };
}
