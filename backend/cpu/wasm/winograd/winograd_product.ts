/** Common part of convolutions and gradients of their kernels: operands and scratch. */
import type { AffineExpr } from "../../../kernel/affine.ts";
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import type { HostBlock } from "../../script/runner.ts";
import type { Product } from "../products/contraction.ts";
import { KernelCall, type KernelCallOptions } from "../products/kernel_call.ts";
import type { Tables } from "../products/tables.ts";
import type { WasmRuntime } from "../runtime.ts";
import type { TileForm } from "./convolution.ts";
import { groupRows, type RowGroups } from "./blocks.ts";
import type { WindowProduct } from "./windows.ts";

/** Parts of a product. */
export interface WinogradOptions {
  readonly kernel: LoopKernel;
  readonly product: WindowProduct;
  /** Destination of its elements. */
  readonly target: AffineExpr;
  readonly runtime: WasmRuntime;
  readonly host: GemmHost;
}

/** Starts of a run's operands, of its tables, and of the scratch behind. */
export interface Addresses {
  readonly image: number;
  readonly other: number;
  readonly result: number;
  readonly tables: number;
  readonly scratch: number;
}

/** A product by minimal filtering. */
export abstract class WinogradProduct implements Product {
  abstract readonly source: string;
  readonly hasEpilogue = false;
  /** Nanoseconds of one thread. */
  abstract readonly cost: number;
  protected abstract readonly tables: Tables;
  /** Bytes beside the tables. */
  protected abstract readonly scratchBytes: number;
  protected readonly runtime: WasmRuntime;
  protected readonly groups: RowGroups;
  readonly #options: WinogradOptions;

  constructor(options: WinogradOptions) {
    const { kernel, product, runtime } = options;
    this.#options = options;
    this.runtime = runtime;
    this.groups = groupRows(product.rows.reduce((count, s) => count * kernel.sizes[s]!, 1));
  }

  /** The call of a kernel whose module is written once for all of a name. */
  protected call(
    name: string,
    write: () => Uint8Array<ArrayBuffer>,
    options: Omit<KernelCallOptions, "kernel" | "tables">,
  ): KernelCall {
    const kernel = this.runtime.named(`winograd ${name}`, write);
    return new KernelCall(this.runtime, { ...options, kernel, tables: this.tables });
  }

  /** Dependencies of its tiles' code. */
  protected get form(): TileForm {
    const { relaxed: isRelaxed, hasPrivatePages: hasPrivatePage } = this.runtime;
    const { rows, long, count } = this.groups;
    return { rows, hasShorter: long < count, isRelaxed, hasPrivatePage };
  }

  run(a: HostBlock, b: HostBlock, c: HostBlock): boolean {
    const { memory } = this.runtime, { product, target, host } = this.#options;
    const blocks = product.isSecond ? [b, a, c] : [a, b, c];
    const [image, other, result] = blocks.map((block) => memory.addressOf(block));
    if (image == null || other == null || result == null) return false;
    return this.tables.place(memory, host, this.scratchBytes, (tables, scratch) =>
      this.runAt({
        image: image + 4 * product.image.index.offset,
        other: other + 4 * product.other.index.offset,
        result: result + 4 * target.offset,
        ...{ tables, scratch },
      }));
  }

  /** Computes it; false where a result is not finite. */
  protected abstract runAt(addresses: Addresses): boolean;
}
