import type { DeviceHandle } from "../../../../backend/internal.ts";
import { Tensor } from "../../../class/tensor.ts";
import { exposed } from "../../../core/internals.ts";
import type { RotaryConfig } from "./architectures/config.ts";

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
 * Rotates pairs of features, the first with the first of the second half, or with its neighbour (J. Su et al.,
 * RoFormer, 2021).
 *
 * @param x (N, heads, L, features); what is beyond the pairs stays as it is.
 * @param angles Those of the L positions: they broadcast to (N, heads, L, pairs).
 * @param isInterleaved True for neighbours.
 */
export function rotated(x: Tensor, { cos, sin }: Angles, isInterleaved = false): Tensor {
  const pairs = cos.shape.at(-1)!, rest = x.shape.at(-1)! - 2 * pairs;
  const turned = (a: Tensor, b: Tensor) => [a.mul(cos).sub(b.mul(sin)), b.mul(cos).add(a.mul(sin))];
  const last = rest > 0 ? [rest] : [], wide = x.cast("float32");
  if (!isInterleaved) {
    const [a, b, ...others] = wide.split([pairs, pairs, ...last], -1);
    return Tensor.concat([...turned(a!, b!), ...others], -1).cast(x.dtype);
  }
  const [turning, ...others] = wide.split([2 * pairs, ...last], -1);
  const [a, b] = turning!.reshape([...x.shape.slice(0, -1), pairs, 2]).unbind<2>(-1);
  const mixed = Tensor.stack(turned(a, b), -1).reshape(turning!.shape);
  return Tensor.concat([mixed, ...others], -1).cast(x.dtype);
}
