/** Brings tensors side by side, so that they are read to the host as one. */
import {
  backendOf,
  type Block,
  type DeviceHandle,
  type DType,
  dtypes,
  type NodeStorage,
} from "../../../backend/internal.ts";
import { Storage } from "../../../memory/mod.ts";
import { Tensor } from "../../class/tensor.ts";
import { RepeatedLaunches } from "../../execution/repeated_launches.ts";
import type { FlatLayout } from "./flat_layout.ts";

/** Tensors side by side; who has it releases it when it was read. */
export class Packed {
  /** All of them. */
  readonly block: Block;
  /** True where there is one; zeros stand for the others. */
  readonly present: readonly boolean[];
  readonly #held: NodeStorage[];

  /** @param own What is to be released with it: a block that was made for it. */
  constructor(block: Block, present: readonly boolean[], own: NodeStorage | null = null) {
    this.block = block;
    this.present = present;
    this.#held = own ? [own] : [];
  }

  /** Holds what the tensors have, too: it is theirs that is read, or their copy. */
  hold(storages: readonly NodeStorage[]): void {
    for (const storage of storages) this.#held.push(storage.retain());
  }

  /** Lets it go. */
  release(): void {
    for (const storage of this.#held.splice(0)) storage.release();
  }
}

/** Packs the same tensors again and again. */
export class Packer implements Disposable {
  readonly #device: DeviceHandle;
  readonly #layout: FlatLayout;
  readonly #types: readonly DType[];
  readonly #to: DType | null;
  /** By which of them there are. */
  readonly #launches = new Map<string, RepeatedLaunches>();

  /**
   * @param layout Of their elements in the type `to`, or where that is null of their bytes.
   * @param types Of the tensors.
   * @param to What they become; null leaves them what they are.
   */
  constructor(
    device: DeviceHandle,
    layout: FlatLayout,
    types: readonly DType[],
    to: DType | null,
  ) {
    this.#device = device;
    this.#layout = layout;
    this.#types = types;
    this.#to = to;
  }

  /** Packs blocks of the tensors; those that lie so already are left where they are. */
  pack(blocks: readonly (Block | null)[]): Packed {
    const layout = this.#layout, elementBytes = this.#to ? dtypes[this.#to].bytes : 1;
    const given = blocks.filter((block) => block !== null);
    const present = blocks.map((block) => block !== null);
    const isWhole = given.length === blocks.length &&
      (this.#to === null || this.#types.every((dtype) => dtype === this.#to));
    const whole = isWhole ? layout.wholeOf(given, elementBytes) : null;
    if (whole) return new Packed(whole, present);
    const { memory } = backendOf(this.#device);
    const made = memory.allocate(layout.size * elementBytes);
    const packed = new Packed(made, present, new Storage(memory, made));
    try {
      this.#launchesFor(present).runInto(given, layout.partsOf(made, elementBytes));
    } catch (error) {
      packed.release();
      throw error;
    }
    return packed;
  }

  #launchesFor(present: readonly boolean[]): RepeatedLaunches {
    const key = present.map(Number).join("");
    let known = this.#launches.get(key);
    if (!known) this.#launches.set(key, known = this.#record(present));
    return known;
  }

  #record(present: readonly boolean[]): RepeatedLaunches {
    const device = this.#device, types = this.#types, to = this.#to;
    const shapes = this.#layout.sizes.map((size, k) => [
      to === null ? size / dtypes[types[k]!].bytes : size,
    ]);
    const likes = shapes.map((shape, k) => ({ shape, dtype: types[k]! }));
    return new RepeatedLaunches(device, likes.filter((_, k) => present[k]), (inputs) => {
      const given = [...inputs];
      return likes.map(({ shape, dtype }, k): Tensor => {
        const type = to ?? dtype;
        if (!present[k]) return Tensor.zeros(shape, { dtype: type, device });
        const input = given.shift()!;
        return dtype === type ? input.clone() : input.cast(type);
      });
    });
  }

  [Symbol.dispose](): void {
    for (const launches of this.#launches.values()) launches[Symbol.dispose]();
    this.#launches.clear();
  }
}
