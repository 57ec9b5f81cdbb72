import type { DeviceHandle } from "../../../../backend/internal.ts";
import { Tensor } from "../../../class/tensor.ts";
import { exposed } from "../../../core/internals.ts";
import type { RotaryConfig } from "./config.ts";

/** Cosines and sines of the angles of positions: float32 of (..., positions, pairs). */
export interface Angles {
  readonly cos: Tensor;
  readonly sin: Tensor;
}

/**
 * The angles of the first positions, computed once on the host, in double precision: every device rotates
 * by the same numbers. Tables grow with the longest text.
 */
export class RotaryTable implements Disposable {
  readonly #config: RotaryConfig;
  readonly #device: DeviceHandle;
  #length = 0;
  #angles: Angles | null = null;

  constructor(config: RotaryConfig, device: DeviceHandle) {
    this.#config = config;
    this.#device = device;
  }

  /** The angles of at least so many positions. */
  atLeast(length: number): Angles {
    if (this.#angles && length <= this.#length) return this.#angles;
    this[Symbol.dispose]();
    this.#length = 2 ** Math.ceil(Math.log2(Math.max(length, 64)));
    const { features, base, slowdown, magnitude } = this.#config, pairs = features / 2;
    const cos = new Float32Array(this.#length * pairs), sin = new Float32Array(cos.length);
    for (let k = 0; k < pairs; k++) {
      const frequency = base ** (-2 * k / features);
      const step = frequency / slowdown(2 * Math.PI / frequency, k);
      for (let position = 0; position < this.#length; position++) {
        cos[position * pairs + k] = Math.cos(position * step) * magnitude;
        sin[position * pairs + k] = Math.sin(position * step) * magnitude;
      }
    }
    const shape = [this.#length, pairs], device = this.#device;
    const put = (data: Float32Array<ArrayBuffer>) =>
      exposed(Tensor.fromHost(data, { shape, device })).realize();
    return this.#angles = { cos: put(cos), sin: put(sin) };
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    this.#angles?.cos.dispose();
    this.#angles?.sin.dispose();
    this.#angles = null;
  }
}

/**
 * Rotates pairs of features, the first with the first of the second half (J. Su et al., RoFormer, 2021).
 *
 * @param x (N, heads, L, features); what is beyond the pairs stays as it is.
 * @param angles Those of the L positions: they broadcast to (N, heads, L, pairs).
 */
export function rotated(x: Tensor, { cos, sin }: Angles): Tensor {
  const pairs = cos.shape.at(-1)!, rest = x.shape.at(-1)! - 2 * pairs;
  const [a, b, others] = x.cast("float32").split([pairs, pairs, ...rest > 0 ? [rest] : []], -1);
  const parts = [a!.mul(cos).sub(b!.mul(sin)), b!.mul(cos).add(a!.mul(sin))];
  return Tensor.concat(others ? [...parts, others] : parts, -1).cast(x.dtype);
}
