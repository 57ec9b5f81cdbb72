/** Attention on matrix units, its warp instructions emulated: values and gradients on any device. */
import { assert } from "@std/assert";
import { type DType, dtypes, type TypedArray } from "../../../../backend/graph/dtype.ts";
import type { AttentionKernel } from "../../../../backend/kernel/attention.ts";
import { hostTarget, type Target } from "../../../../backend/kernel/target.ts";
import { preludeFor } from "../../../../backend/opencl/codegen/prelude.ts";
import type { Generated } from "../../../../backend/opencl/codegen/generated.ts";
import { generateKernel } from "../../../../backend/opencl/templates/generate.ts";
import { Buffer, Program } from "../../../../ffi/mod.ts";
import { manager } from "../../../../mod.ts";
import { testOpenCL } from "../../../opencl.ts";
import {
  type AttentionCase,
  attentionCase,
  compare,
  headByHead,
  passesOf,
} from "../../attention_cases.ts";
import { withoutOptimizing } from "../fixture.ts";
import { emulated } from "./emulated_mma.ts";

const ampere: Target = {
  ...hostTarget,
  isGpu: true,
  matrixUnits: "mma",
  warps: false,
  warpgroups: false,
  localMemory: 49152,
  computeUnits: 132,
};
const hopper: Target = { ...ampere, warpgroups: true };

const cases: Record<string, AttentionCase> = {
  plain: attentionCase([2, 70, 130, 32, 32]),
  "scores that grow from tile to tile": attentionCase([1, 40, 200, 32, 32], { scale: 60 }),
  "a scale below 0": attentionCase([1, 20, 70, 16, 16], { scale: -30 }),
  "rows of all heads side by side": attentionCase([3, 20, 30, 16, 32], { isInterleaved: true }),
  bfloat16: attentionCase([1, 64, 64, 16, 16], { dtype: "bfloat16" }),
  causal: attentionCase([1, 150, 140, 64, 64], { isCausal: true }),
  "an output of float32": attentionCase([2, 40, 30, 16, 32], { dtype: "bfloat16", isWide: true }),
  "other values": attentionCase([1, 20, 30, 48, 96]),
  "a mask and dropout": attentionCase([2, 40, 70, 16, 32], { mask: true, dropout: true }),
  "many queries": attentionCase([1, 530, 65, 16, 16]),
  "warpgroups, odd sizes": attentionCase([2, 150, 70, 64, 64], {
    isHopper: true,
    isInterleaved: true,
  }),
  "warpgroups, causal": attentionCase([1, 140, 150, 64, 64], {
    dtype: "bfloat16",
    isCausal: true,
    isHopper: true,
  }),
  "long rows": attentionCase([1, 33, 70, 128, 128], { dtype: "bfloat16" }),
};

/** Runs the emulated kernels; gives the outputs. */
async function runEmulated(
  kernel: AttentionKernel,
  inputs: readonly TypedArray[],
  { isHopper = false, isInterleaved = false }: AttentionCase,
): Promise<TypedArray[]> {
  const { context, queue } = manager.default("cl");
  const buffers = [...inputs.map((x) => x.byteLength), ...kernel.outputs.map(bytesOf)]
    .map((nbytes) => new Buffer(context!, nbytes));
  inputs.forEach((x, k) => queue!.write(buffers[k]!, x).release());
  const target = isHopper ? hopper : ampere, sign = isHopper ? "EMU_WG_ADD" : "EMU_LOAD4";
  for (const generated of generateKernel({ ...kernel, isInterleaved }, target)) {
    const { helpers, source } = emulated(generated.source, generated.local[0]!);
    assert(source.includes(sign), "it is written for matrix units");
    const text = `${preludeFor(source)}\n${helpers}\nkernel void k${source}`;
    using program = new Program(context!, text).build();
    using made = program.kernel("k");
    const args = [...buffers, ...buffers.map(() => Int32Array.of(0)), ...parametersOf(generated)];
    queue!.run(made, { global: [...generated.global], local: [...generated.local], args })
      .release();
    queue!.finishSync();
  }
  const outputs: TypedArray[] = [];
  for (const [k, { dtype, size }] of kernel.outputs.entries()) {
    const { bytes, view } = dtypes[dtype];
    const into = new Uint8Array(size * bytes);
    await queue!.read(buffers[inputs.length + k]!, into).wait();
    outputs.push(view(into.buffer, 0, size));
  }
  for (const buffer of buffers) buffer.release();
  return isInterleaved ? outputs.map((output, k) => headByHead(kernel, output, k)) : outputs;
}

function bytesOf({ dtype, size }: { dtype: DType; size: number }): number {
  return dtypes[dtype].bytes * size;
}

function parametersOf(
  { parameters }: Generated,
): (Int32Array<ArrayBuffer> | Float32Array<ArrayBuffer>)[] {
  return parameters.map((p) =>
    p.kind === "constant"
      ? Float32Array.of(p.value)
      : Int32Array.of(p.kind === "index" ? p.value : p.stream.value)
  );
}

for (const [name, each] of Object.entries(cases)) {
  testOpenCL(`attention on matrix units, emulated: ${name}`, async () => {
    for (const { kernel, inputs, expected } of passesOf(each)) {
      const found = await withoutOptimizing(() => runEmulated(kernel, inputs, each));
      compare(`${name}, ${kernel.pass}`, kernel, found, expected);
    }
  });
}
