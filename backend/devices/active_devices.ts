/**
 * Which device is active, for each asynchronous task by itself. A frame belongs to one
 * `withDevice` call, or to the program outside of any; AsyncLocalStorage carries it across await.
 * Frames are changed in place and never entered with `enterWith`, which would leak into the caller
 * when used before the first await of an async function.
 */
import { AsyncLocalStorage } from "node:async_hooks";
import type { DeviceHandle } from "./device_handle.ts";

interface Frame {
  readonly base: DeviceHandle | undefined;
  readonly opened: DeviceHandle[];
}

const programFrame: Frame = { base: undefined, opened: [] };
const frames: AsyncLocalStorage<Frame> = new AsyncLocalStorage();

function currentFrame(): Frame {
  return frames.getStore() ?? programFrame;
}

/** The device opened last in this task, or undefined where none was opened. */
export function activeDevice(): DeviceHandle | undefined {
  const { base, opened } = currentFrame();
  return opened.at(-1) ?? base;
}

/** Makes `handle` the active device until {@linkcode closeDevice}. */
export function openDevice(handle: DeviceHandle): void {
  currentFrame().opened.push(handle);
}

/** Undoes the last {@linkcode openDevice}, which must have been for the same device. */
export function closeDevice(handle: DeviceHandle): void {
  const { opened } = currentFrame();
  const position = opened.lastIndexOf(handle);
  if (position < 0) {
    throw new Error(
      `Cannot close device "${handle.selector}": it is not open here; ` +
        `write \`using dev = device("${handle.selector}")\``,
    );
  }
  const later = opened[position + 1];
  opened.splice(position, 1); // the later block stays as it is, and closes in its turn
  if (later === undefined) return;
  throw new Error(
    `Cannot close device "${handle.selector}" before "${later.selector}", which was opened after ` +
      `it: blocks close last in, first out; in code that awaits use withDevice()`,
  );
}

/** Runs `fn` in a frame of its own, in which `handle` is active. */
export function runWithDevice<T>(handle: DeviceHandle, fn: () => T): T {
  return frames.run({ base: handle, opened: [] }, fn);
}
