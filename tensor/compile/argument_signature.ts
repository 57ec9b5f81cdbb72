/** Properties of the tensors among a compiled function's arguments: they tell calls apart. */
import { type DeviceHandle, type DType, sameShape, type Shape } from "../../backend/internal.ts";
import { nodeOf, stateOf } from "../core/internals.ts";
import type { Tensor } from "../core/mod.ts";

/** Properties of a tensor without its value. */
interface Likeness {
  readonly shape: Shape;
  readonly dtype: DType;
  readonly device: DeviceHandle;
  readonly needsGrad: boolean;
}

/** So many tensors are compared with each other; more are put in a set. */
const MAX_PAIRED = 8;

/** Shapes, types, devices, and which tensors share memory, which a recording cannot tell apart. */
export class ArgumentSignature {
  /** The same for equal signatures. */
  readonly key: string;
  readonly #likes: readonly Likeness[];
  readonly #isShared: boolean;

  /** The signature of these tensors, which are in memory. */
  constructor(given: readonly Tensor[]) {
    this.#likes = given.map(likenessOf);
    this.#isShared = sharesMemory(given);
    const blocks = this.#isShared ? given.map(blockOf) : [];
    const sharing = blocks.map((block) => blocks.indexOf(block)).join();
    this.key = `${sharing}(${this.#likes.map(keyOf).join("|")})`;
  }

  /** True for tensors of this signature; false where only their keys tell. */
  fits(given: readonly Tensor[]): boolean {
    if (this.#isShared || this.#likes.length !== given.length) return false;
    for (let k = 0; k < given.length; k++) if (!isLike(given[k]!, this.#likes[k]!)) return false;
    return !sharesMemory(given);
  }
}

function likenessOf(tensor: Tensor): Likeness {
  const { shape, dtype, device } = tensor;
  return { shape, dtype, device, needsGrad: stateOf(tensor).needsGrad };
}

function keyOf({ dtype, shape, device, needsGrad }: Likeness): string {
  return `${dtype}[${shape}]@${device.selector}${needsGrad ? "g" : ""}`;
}

function isLike(tensor: Tensor, { shape, dtype, device, needsGrad }: Likeness): boolean {
  const state = stateOf(tensor), { node } = state;
  return node.dtype === dtype && state.device === device && state.needsGrad === needsGrad &&
    sameShape(node.shape, shape);
}

/** The block that a tensor's value is in. */
function blockOf(tensor: Tensor): unknown {
  const node = nodeOf(tensor);
  return node.storage?.handle ?? node;
}

function sharesMemory(given: readonly Tensor[]): boolean {
  if (given.length > MAX_PAIRED) return new Set(given.map(blockOf)).size < given.length;
  for (let k = 1; k < given.length; k++) {
    const block = blockOf(given[k]!);
    for (let before = 0; before < k; before++) if (blockOf(given[before]!) === block) return true;
  }
  return false;
}
