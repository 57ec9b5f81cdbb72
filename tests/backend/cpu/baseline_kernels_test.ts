import { assertEquals } from "@std/assert";
import { noGrad, Tensor } from "../../../mod.ts";
import { HostBaseline } from "../../../backend/cpu/baseline_kernels.ts";
import type { Block, HostCopy } from "../../../backend/execution/backend.ts";
import type { BlockAccess } from "../../../backend/execution/baseline.ts";
import { schedule } from "../../../backend/schedule/schedule.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { testOnCPU } from "../../opencl.ts";

/** Blocks of a device: in memory that was lent, or elsewhere, where they are copied from and to. */
class Blocks implements BlockAccess {
  readonly arrays = new Map<Block, Uint8Array<ArrayBuffer>>();
  /** The steps that were done, in order. */
  readonly done: string[] = [];

  of(array: Uint8Array<ArrayBuffer>, offset: number, nbytes: number): Block {
    const block = { offset, nbytes } as Block;
    this.arrays.set(block, array);
    return block;
  }

  waitFor(blocks: readonly Block[]): void {
    this.done.push(`waitFor ${blocks.length}`);
  }

  arrayOf(block: Block): Uint8Array<ArrayBuffer> | undefined {
    return this.arrays.get(block);
  }

  read(copies: readonly HostCopy[]): void {
    if (copies.length > 0) this.done.push(`read ${copies.length}`);
    for (const { bytes } of copies) bytes.set(new Uint8Array(new Float32Array([5, 6]).buffer));
  }

  write(copies: readonly HostCopy[]): void {
    for (const { bytes } of copies) {
      const [first, second] = new Float32Array(bytes.slice().buffer);
      this.done.push(`write ${first} ${second}`);
    }
  }
}

testOnCPU("HostBaseline computes where lent memory lies, and copies what lies elsewhere", () => {
  const { kernels: [kernel] } = noGrad(() =>
    schedule([nodeOf(Tensor.fromHost([1, 2]).realize().mul(3))])
  );
  const baseline = new HostBaseline(), run = baseline.kernel(kernel!.kernel)!.run;
  const array = baseline.lend(65536)!, blocks = new Blocks();
  const floats = new Float32Array(array.buffer, array.byteOffset);
  const [x, y] = [blocks.of(array, 256, 8), blocks.of(array, 1024, 8)];
  floats.set([7, 8], 64);
  run([x], [y], blocks);
  assertEquals([[...floats.subarray(256, 258)], blocks.done], [[21, 24], ["waitFor 2"]]);
  const elsewhere = [{ nbytes: 8 }, { nbytes: 8 }] as Block[];
  run([elsewhere[0]!], [elsewhere[1]!], blocks);
  assertEquals(blocks.done.slice(1), ["waitFor 2", "read 1", "write 15 18"]);
  baseline.takeBack(array);
});
