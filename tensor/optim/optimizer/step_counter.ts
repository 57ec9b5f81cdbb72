import type { DeviceHandle } from "../../../backend/internal.ts";
import { Tensor } from "../../class/tensor.ts";

/**
 * Number of updates of some parameters, counted on the device: a recorded step counts on when it
 * is replayed. Shared by the parameters that have always been updated together.
 */
export class StepCounter {
  /**
   * The number, float32, twice: Adam corrects two moments by it, and what has the same shape is
   * computed in the same kernel.
   */
  readonly count: Tensor;

  /** @param count The number so far, of shape [2]. */
  private constructor(count: Tensor) {
    this.count = count.realize();
  }

  /** A counter at `count`. */
  static at(count: number, device: DeviceHandle): StepCounter {
    return new StepCounter(Tensor.full([2], count, { device }));
  }

  /** Another counter with the same count, on a device. */
  copy(device: DeviceHandle = this.count.device): StepCounter {
    return new StepCounter(this.count.detach().to(device));
  }

  /** Gives the memory back. */
  dispose(): void {
    this.count.dispose();
  }
}
