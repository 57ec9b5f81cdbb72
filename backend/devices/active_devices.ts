/**
 * The active device, for each asynchronous task by itself. A frame belongs to one
 * `withDevice` call, or to the program outside of any; AsyncLocalStorage carries it across await.
 * Frames are changed in place and never entered with `enterWith`, which would leak into the caller
 * when used before the first await of an async function.
 */
import { AsyncLocalStorage } from "node:async_hooks";

interface Frame<D> {
  readonly base: D | undefined;
  readonly opened: D[];
}

/** Stacks of active devices; errors name a device by its selector. */
export class ActiveDevices<D extends { readonly selector: string }> {
  readonly #program: Frame<D> = { base: undefined, opened: [] };
  readonly #frames = new AsyncLocalStorage<Frame<D>>();

  get #frame(): Frame<D> {
    return this.#frames.getStore() ?? this.#program;
  }

  /** The device opened last in this task, or undefined where none was opened. */
  get current(): D | undefined {
    const { base, opened } = this.#frame;
    return opened.at(-1) ?? base;
  }

  /** Makes `device` the active one until {@linkcode ActiveDevices.close}. */
  open(device: D): void {
    this.#frame.opened.push(device);
  }

  /** Undoes the last {@linkcode ActiveDevices.open}, which must have been for the same device. */
  close(device: D): void {
    const { opened } = this.#frame;
    const position = opened.lastIndexOf(device);
    if (position < 0) {
      throw new Error(
        `Cannot close device "${device.selector}": it is not open here; ` +
          `write \`using dev = device("${device.selector}")\``,
      );
    }
    const later = opened[position + 1];
    opened.splice(position, 1); // the later block stays as it is, and closes in its turn
    if (later === undefined) return;
    throw new Error(
      `Cannot close device "${device.selector}" before "${later.selector}", which was opened after ` +
        `it: blocks close last in, first out; in code that awaits use withDevice()`,
    );
  }

  /** Runs `fn` in a frame of its own, in which `device` is active. */
  runWith<T>(device: D, fn: () => T): T {
    return this.#frames.run({ base: device, opened: [] }, fn);
  }
}
