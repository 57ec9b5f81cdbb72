/**
 * Ownership of OpenCL objects: release once, refuse use after it, count what lives, and catch what
 * was forgotten.
 *
 * This folder (`objects/`) has what every OpenCL object is made of, and those that exist before any
 * command: platforms, devices, contexts, functions of extensions. It imports `library/`, `symbols/`
 * and `host/`. Handles come from the driver and go back to it at the release.
 *
 * @module
 */
import { check, DisposedError } from "../library/errors.ts";
import { finalizer } from "../library/finalizer.ts";
import { cl } from "../library/library.ts";
import { shown } from "../host/options.ts";
import { withProcessLock } from "../host/process_lock.ts";
import type { Handle } from "../symbols/types.ts";

/** Kinds of objects that this module counts. */
export type ObjectKind =
  | "SubDevice"
  | "Context"
  | "CommandQueue"
  | "Buffer"
  | "MappedRegion"
  | "Image"
  | "Sampler"
  | "SvmBuffer"
  | "Program"
  | "Kernel"
  | "Event"
  | "CommandBuffer";

const zeros = (): Record<ObjectKind, number> => ({
  SubDevice: 0,
  Context: 0,
  CommandQueue: 0,
  Buffer: 0,
  MappedRegion: 0,
  Image: 0,
  Sampler: 0,
  SvmBuffer: 0,
  Program: 0,
  Kernel: 0,
  Event: 0,
  CommandBuffer: 0,
});

const live = zeros();
const leaked = zeros();

/** The number of objects of each kind that were made and not released. */
export function liveObjects(): Record<ObjectKind, number> {
  return { ...live };
}

/**
 * The number of objects of each kind that the garbage collector had to release, not the program.
 */
export function leakedObjects(): Record<ObjectKind, number> {
  return { ...leaked };
}

/** The number of released objects, without events: while it is the same, what was live still is. */
export let releases = 0;

/** Gives one reference back to the driver. */
export interface Releaser {
  /** The C function's name, for errors. */
  readonly call: string;
  /** Calls it. */
  run(handle: bigint): number;
}

interface Owned {
  readonly kind: ObjectKind;
  readonly handle: bigint;
  readonly releaser: Releaser;
}

// For objects that were neither disposed of nor released. It holds no reference to the object
// itself, and runs in its thread of JavaScript between two turns of the event loop.
const forgotten = finalizer<Owned>(
  ({ kind }) => `a forgotten ${kind}`,
  ({ kind, handle, releaser }) => {
    leaked[kind]++;
    live[kind]--;
    check(releaser.run(handle), releaser.call);
  },
);

/** The kind of an object of the driver, also a released one; null for anything else. */
export let kindOf: (value: unknown) => ObjectKind | null;

/**
 * Refuses what is no object of this kind: the driver would follow its handle, or a number in its
 * place, wherever it leads.
 *
 * @param action What the call does, for messages: "make a Buffer".
 * @throws {TypeError} When it is another kind of object, or none.
 */
export function requireObject(action: string, value: unknown, kind: ObjectKind): void {
  if (kindOf(value) === kind) return;
  throw new TypeError(`Cannot ${action} with ${shown(value)}: pass a ${kind}`);
}

/** An object of the driver with one owner. */
export abstract class OpenCLObject<Kind extends string> implements Disposable {
  readonly #kind: ObjectKind;
  readonly #releaser: Releaser;
  #handle: bigint;

  static {
    kindOf = (value) =>
      typeof value === "object" && value !== null && #kind in value ? value.#kind : null;
  }

  /**
   * Takes ownership of a handle.
   *
   * @param kind What it counts as.
   * @param handle A handle with one reference, which passes to this object.
   * @param releaser How that reference is given back.
   */
  protected constructor(kind: ObjectKind, handle: Handle<Kind>, releaser: Releaser) {
    this.#kind = kind;
    this.#handle = handle;
    this.#releaser = releaser;
    live[kind]++;
    forgotten.register(this, { kind, handle, releaser }, this);
  }

  /**
   * The raw handle, for calls that this library does not wrap. Valid until `release()`.
   *
   * @throws {DisposedError} If the object was released.
   */
  get unsafeHandle(): Handle<Kind> {
    if (this.#handle === 0n) {
      throw new DisposedError(`Cannot use this ${this.#kind}: it was released`);
    }
    return this.#handle as Handle<Kind>;
  }

  /** True when `release()` was called. */
  get released(): boolean {
    return this.#handle === 0n;
  }

  /** Gives the object back to the driver. Further calls do nothing. */
  release(): void {
    if (this.#handle === 0n) return;
    const handle = this.#handle;
    this.#handle = 0n;
    if (this.#kind !== "Event") releases++;
    live[this.#kind]--;
    forgotten.unregister(this);
    check(this.#releaser.run(handle), this.#releaser.call);
  }

  /** Releases it, for `using`. */
  [Symbol.dispose](): void {
    this.release();
  }
}

const releaser = (call: string, run: (handle: never) => number): Releaser => ({
  call,
  run: run as (handle: bigint) => number,
});

/** The function that gives back each kind of object. */
export const releasers = {
  device: releaser("clReleaseDevice", (h: Handle<"Device">) => cl.clReleaseDevice(h)),
  context: releaser(
    "clReleaseContext",
    (h: Handle<"Context">) => withProcessLock(() => cl.clReleaseContext(h)),
  ),
  queue: releaser(
    "clReleaseCommandQueue",
    (h: Handle<"CommandQueue">) => cl.clReleaseCommandQueue(h),
  ),
  memory: releaser("clReleaseMemObject", (h: Handle<"Mem">) => cl.clReleaseMemObject(h)),
  sampler: releaser("clReleaseSampler", (h: Handle<"Sampler">) => cl.clReleaseSampler(h)),
  program: releaser("clReleaseProgram", (h: Handle<"Program">) => cl.clReleaseProgram(h)),
  kernel: releaser("clReleaseKernel", (h: Handle<"Kernel">) => cl.clReleaseKernel(h)),
  event: releaser("clReleaseEvent", (h: Handle<"Event">) => cl.clReleaseEvent(h)),
} as const satisfies Record<string, Releaser>;

/**
 * Makes an owner for each handle. If one cannot be made, none is, and all handles are given back.
 */
export function ownAll<T extends Disposable>(
  handles: BigUint64Array,
  releaser: Releaser,
  make: (handle: bigint) => T,
): T[] {
  const owners: T[] = [];
  try {
    for (const handle of handles) owners.push(make(handle));
    return owners;
  } catch (error) {
    for (const owner of owners) owner[Symbol.dispose]();
    // The one that failed has given its own handle back.
    for (const handle of handles.subarray(owners.length + 1)) {
      check(releaser.run(handle), releaser.call);
    }
    throw error;
  }
}
