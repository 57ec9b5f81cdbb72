/** Tensors side by side in one block: all of them are one copy, and one operand of a kernel. */
import {
  type Backend,
  type Block,
  BlockPart,
  MAX_BASE_BYTES,
  type NodeStorage,
} from "../../../backend/internal.ts";
import { type BlockPlace, Storage } from "../../../memory/mod.ts";

/** Elements: of a byte each, they begin where every device's memory objects and vectors may. */
const ALIGNMENT = 512;

/** Start of each of the tensors. The space between two of them has no meaning. */
export class FlatLayout {
  /** Elements of each tensor. */
  readonly sizes: readonly number[];
  /** In elements. */
  readonly starts: readonly number[];
  /** Elements from the first to the last. */
  readonly size: number;
  readonly #places = new Map<number, readonly BlockPlace[]>();

  /** @param sizes Elements of each tensor, at least one. */
  constructor(sizes: readonly number[]) {
    let end = 0;
    this.sizes = sizes;
    this.starts = sizes.map((size) => {
      const start = Math.ceil(end / ALIGNMENT) * ALIGNMENT;
      end = start + size;
      return start;
    });
    this.size = end;
  }

  /** The places in bytes. */
  places(elementBytes: number): readonly BlockPlace[] {
    const known = this.#places.get(elementBytes);
    if (known) return known;
    const places = this.sizes.map((size, k) => ({
      offset: this.starts[k]! * elementBytes,
      nbytes: size * elementBytes,
    }));
    this.#places.set(elementBytes, places);
    return places;
  }

  /** The places in a block, for kernels that write there. */
  partsOf(whole: Block, elementBytes: number): Block[] {
    return this.places(elementBytes).map(({ offset, nbytes }) =>
      new BlockPart(whole, offset, nbytes)
    );
  }

  /** The block of all, where they lie as they do here, to be read while they are there; else null. */
  wholeOf(blocks: readonly Block[], elementBytes: number): Block | null {
    const first = blocks[0]!, places = this.places(elementBytes);
    const areSideBySide = blocks.every(({ base, offset, nbytes }, k) =>
      base === first.base && offset === first.offset + places[k]!.offset &&
      nbytes === places[k]!.nbytes
    );
    const nbytes = this.size * elementBytes;
    if (!areSideBySide || first.offset + nbytes > MAX_BASE_BYTES) return null;
    return new BlockPart(first, 0, nbytes);
  }

  /** New blocks side by side; null where the memory is not divided so. */
  allocate({ memory }: Backend, elementBytes: number): Block[] | null {
    const whole = memory.allocate(this.size * elementBytes);
    const blocks = memory.divide(whole, this.places(elementBytes));
    if (blocks === null) whole.release();
    return blocks;
  }

  /** Makes a block for each tensor of the block of all, which passes to them. */
  divide(backend: Backend, whole: Block, elementBytes: number): NodeStorage[] {
    const { memory } = backend;
    const divided = memory.divide(whole, this.places(elementBytes));
    const blocks = divided ?? this.#copies(backend, whole, elementBytes);
    return blocks.map((block) => new Storage(memory, block));
  }

  /** Copies where the memory is not divided. */
  #copies(backend: Backend, whole: Block, elementBytes: number): Block[] {
    const blocks = this.places(elementBytes).map(({ offset, nbytes }) => {
      const block = backend.memory.allocate(nbytes);
      // Empty tensors by themselves have a block without memory.
      if (nbytes > 0) backend.copy(new BlockPart(whole, offset, nbytes), block, nbytes);
      return block;
    });
    whole.release();
    return blocks;
  }
}
