/**
 * Contract of a backend. It is small on purpose: everything above it (graph, scheduler, tensors,
 * autograd) is written once and runs on any. All backends pass one conformance suite.
 *
 * This folder (`execution/`) has the interface and all that runs schedules on it: buffers,
 * recordings, values saved for backward or moved to the host. It imports `schedule/`, `kernel/`,
 * `graph/`, `devices/` and `memory/`, and no backend: those import it. Nodes come from the tensor
 * layer; launches go to a backend, stored values into the nodes.
 */
import type { BufferHandle, DeviceMemory } from "../../memory/mod.ts";
import type { BackendName, DeviceHandle } from "../devices/device_handle.ts";
import type { DType } from "../graph/dtype.ts";
import type { PlanningDevice } from "../kernel/template.ts";
import type { Launchable } from "../kernel/kernel.ts";

/** A block of a backend's memory: a cl_mem or a typed array, as its backend knows. */
// deno-lint-ignore no-explicit-any -- the buffer's type is the backend's own business
export type Block = BufferHandle<any>;

/** So many first places are found in a walk, of so many rows at least; of rows no longer than that always. */
export interface RowSelection {
  readonly maxPlaces: number;
  readonly minRows: number;
  readonly maxLength: number;
}

/** Capabilities of a device. */
export interface Capabilities {
  /** The element types that arithmetic and storage work for. */
  readonly dtypes: ReadonlySet<DType>;
  /** Half-precision arithmetic in kernels (else halves are computed in float). */
  readonly fp16: boolean;
  /** Host and device share their memory. */
  readonly unifiedMemory: boolean;
  /**
   * The element types whose attention is one operation. Elsewhere products and a softmax are faster: matrix
   * units make products of float32, but no attention of it.
   */
  readonly attention: ReadonlySet<DType>;
  /** The fewest scores a head from which it is: with fewer, several operations are faster. */
  readonly minAttentionScores: number;
  /** So many bytes of scores are kept for `backward`; more are computed again where types have no tiles. */
  readonly keptAttentionBytes: number;
  /** True when attention stores rows of all heads side by side, as products read them. */
  readonly interleavesHeads: boolean;
  /** True when the product that maps heads is faster of a copy with all heads row by row. */
  readonly joinsHeads: boolean;
  /** True when mean and variance of scattered parts (a batch norm's) take a single walk. */
  readonly joinsMoments: boolean;
  /**
   * Bytes of a recurrent layer's weights for a state of float32 with which all its steps are one
   * operation: its cores keep them at hand. 0: never.
   */
  readonly maxRecurrentBytes: number;
  /** True when scatters keep the largest or least of what comes to a place; else sources are sorted. */
  readonly scattersExtremes: boolean;
  /** Rows whose first places are found without sorting them. */
  readonly selection: RowSelection;
  /**
   * True when the gradient of a few rows of many is kept as sums of those rows, which readers
   * gather: where passes over all rows wait for memory.
   */
  readonly gathersGradients: boolean;
  /** True when products of half types are computed on float32 copies, a CPU's vectors. */
  readonly widensProducts: boolean;
}

/** A kernel that is built and has its sizes: only the buffers are missing. */
export interface Launch {
  /** Enqueues it. Order on a backend is program order. */
  run(inputs: readonly Block[], outputs: readonly Block[]): void;
  /** Its name in traces. */
  readonly name: string;
  /** Running code, in the language of the backend. */
  readonly source: string;
  /** Bytes that it must move at least. */
  readonly bytes: number;
  /** It hands its blocks to a kernel that takes no offsets: each needs a memory object of its own. */
  readonly needsOwnBuffers?: boolean;
  /**
   * The output that follows from one input alone, by their places: who keeps it while the input is the same may
   * run the launch `again` without making it anew.
   */
  readonly kept?: KeptOutput;
  /**
   * The same with arguments of its own, for who runs it many times with nearly the same blocks. Null while it
   * is not compiled; absent where setting arguments costs nothing.
   */
  repeated?(): RepeatedLaunch | null;
}

/** Places among the blocks of a launch. */
export interface KeptOutput {
  readonly output: number;
  readonly input: number;
}

/** A launch whose arguments stay set from run to run; its owner disposes of it. */
export interface RepeatedLaunch extends Launch, Disposable {
  /**
   * Enqueues it with blocks where those of its last run were, while `mayRepeat` of the backend allows it.
   * The caller has awaited uploads to them.
   *
   * @param isPrepared True where the output that is `kept` is there; default: false.
   */
  again(isPrepared?: boolean): void;
}

/** Transfer of a new block's content to a device. */
export interface UploadOptions {
  /** True when it is made in pinned memory as a whole, which the device copies from by itself. */
  readonly pinMemory?: boolean;
  /** True when the block comes from the device's persistent pool: weights, which live long. */
  readonly persistent?: boolean;
}

/** Memory of the host that a device copies from and to by itself. */
export interface HostBlock extends Disposable {
  /** The memory; not initialized. */
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A block, and as many bytes of the host. */
export interface HostCopy {
  readonly block: Block;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** Copies between a device and the host that go on while the host does something else. */
export interface BesideCopy extends Disposable {
  /**
   * True when they are over; then the bytes are the caller's again.
   *
   * @throws {OpenCLError} When one failed.
   */
  isDone(): boolean;
  /**
   * Blocks in the driver until they are over, where Ctrl+C is not seen: for who knows that it will not be
   * long. Absent where the driver would keep a core busy with it.
   */
  waitInDriver?(): void;
}

/**
 * A number in host memory that a device writes behind its bytes there. Devices whose gates look at memory
 * see it; for the others the host looks after the copy.
 */
export interface Sign {
  /** Memory that each device has pinned for itself. */
  readonly memory: HostBlock;
  /** Of the number's four bytes in it, at a multiple of four. */
  readonly offset: number;
  /** Below `SIGN_VALUES`; the next sign in the same place has the next number, behind the last one 0. */
  readonly value: number;
}

/** Numbers of signs: who waits for one is behind by less than half of them. */
export const SIGN_VALUES = 4096;

/** Holds copies back until their bytes are there. */
export interface Gate {
  /** Lets them begin; whoever made the gate must, when the bytes are there or will not come. */
  open(): void;
}

/** A place where kernels run. What they are planned by is data about the device. */
export interface Backend extends PlanningDevice {
  /** "cl" for OpenCL, "cpu" for the built-in one. */
  readonly name: BackendName;
  /** The device it runs on. */
  readonly device: DeviceHandle;
  /** Capabilities of the device. */
  readonly capabilities: Capabilities;
  /** Allocator of its buffers. */
  // deno-lint-ignore no-explicit-any -- as above
  readonly memory: DeviceMemory<any>;
  /**
   * Makes a block with the given content, beside the kernels that are enqueued where the device can
   * do that; `data` may be changed as soon as this returns.
   *
   * @returns The block, the caller's to release.
   * @throws {OutOfMemoryError} When there is no memory for it.
   */
  upload(data: Uint8Array, options?: UploadOptions): Block;
  /** Copies bytes to a block; `data` may be changed as soon as this returns. */
  write(block: Block, data: Uint8Array, offset?: number): void;
  /**
   * Copies bytes from a block once all earlier work is done.
   *
   * @throws {RangeError} When earlier work used an index out of range.
   * @throws {InterruptedError} When Ctrl+C arrives while it waits.
   */
  read(block: Block, into: Uint8Array, offset?: number): Promise<void>;
  /** The same, blocking the event loop. */
  readSync(block: Block, into: Uint8Array, offset?: number): void;
  /** Host memory for copies beside the kernels: pinned where the device has memory of its own. */
  stage(nbytes: number): HostBlock;
  /**
   * Has the driver pin memory of the host that somebody else made, where the device has memory of its own:
   * the same for copies beside the kernels. Not to be used by any copy when the block is disposed of.
   */
  pin(bytes: Uint8Array<ArrayBuffer>): HostBlock;
  /**
   * Begins to copy blocks to the host, once everything is done that was enqueued before; what is
   * enqueued later runs beside the copies. The caller holds the blocks until they are over: those of one
   * that is released may be written to before.
   *
   * @param sign Given behind the last of them.
   */
  readBeside(copies: readonly HostCopy[], sign?: Sign): BesideCopy;
  /**
   * Begins to copy host memory to blocks that no kernel under way uses; kernels that are enqueued later
   * and use them wait for the copies, others run beside them.
   */
  writeBeside(copies: readonly HostCopy[]): BesideCopy;
  /** The same to new blocks, which are the caller's to release; behind a gate, if there is one. */
  uploadBeside(
    data: readonly Uint8Array<ArrayBuffer>[],
    gate?: Gate,
  ): { blocks: Block[]; copy: BesideCopy };
  /** True when copies can wait for gates; else the host waits before it begins with them. */
  readonly hasGates: boolean;
  /**
   * A closed gate for copies of this backend, which opens by itself where the device sees that all signs
   * are given. What is enqueued later may wait for it, too.
   */
  gate(signs: readonly Sign[]): Gate;
  /** The bytes of a block as they are now, where all earlier work is done and they are host memory. */
  peek?(block: Block): Uint8Array<ArrayBuffer>;
  /** Copies `nbytes` from one block to another. */
  copy(source: Block, destination: Block, nbytes: number): void;
  /** Builds kernels that are not built yet, all in one go. */
  prepare(kernels: readonly Launchable[]): Launch[];
  /** True when launches may be run `again` now: none is another tier's. */
  mayRepeat(): boolean;
  /** Waits for all work without blocking the event loop. */
  finish(): Promise<void>;
  /** Waits for all work. */
  finishSync(): void;
  /** Gives everything back. */
  dispose(): void;
}
