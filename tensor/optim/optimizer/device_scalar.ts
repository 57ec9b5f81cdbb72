/** A number that kernels read from memory, so that changing it changes no kernel. */
import type { DeviceHandle } from "../../../backend/internal.ts";
import { isObserved, unobserved, writeAside } from "../../core/calls.ts";
import { Tensor } from "../../class/tensor.ts";
import { stateOf } from "../../core/internals.ts";

/** A float32 scalar with a copy on every device that uses it. */
export class DeviceScalar {
  #value: number;
  readonly #copies = new Map<DeviceHandle, Tensor>();

  /** @param value The first value. */
  constructor(value: number) {
    this.#value = value;
  }

  /** The number, in full precision. */
  get value(): number {
    return this.#value;
  }

  /** Changes the number on every device. */
  set value(value: number) {
    const isSame = value === this.#value;
    // A compiled step sets its rate in every call: one whose schedule has come to rest is the same step.
    if (isSame && !isObserved()) return;
    this.#value = value;
    writeAside(this, [...this.#copies.values()], () => {
      if (isSame) return;
      for (const [device, copy] of this.#copies) {
        using fresh = Tensor.fromHost(value, { device });
        stateOf(copy.assign(fresh).realize()).dropFormer();
      }
    });
  }

  /** Its tensor of shape [] on a device. */
  on(device: DeviceHandle): Tensor {
    let copy = this.#copies.get(device);
    if (!copy) {
      // Whoever asks first: it is no part of what is computed.
      copy = unobserved(() => Tensor.fromHost(this.#value, { device }).realize());
      this.#copies.set(device, copy);
    }
    return copy;
  }

  /** Gives the memory back. */
  dispose(): void {
    for (const copy of this.#copies.values()) copy.dispose();
    this.#copies.clear();
  }
}
