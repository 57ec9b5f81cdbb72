/** Runs loop kernels in WebAssembly. */
import type { LoopKernel } from "../../../kernel/kernel.ts";
import type { RandomStream } from "../../../graph/scalar.ts";
import type { CheckIndex, PartialRunner } from "../../script/runner.ts";
import { generateLoop } from "./loop.ts";
import type { GeneratedLoop } from "./loop_plan.ts";
import type { WasmRuntime } from "../runtime.ts";

/**
 * The runner of a kernel, or null where it has no vectors.
 *
 * @param check Told of indices that are out of range.
 * @param mayKeep Whether values that are read twice may stay in memory: not where an output is an input.
 */
export function loopRunner(
  kernel: LoopKernel,
  runtime: WasmRuntime,
  check: CheckIndex,
  mayKeep = true,
): PartialRunner | null {
  const loop = generateLoop(kernel, runtime.relaxed, mayKeep);
  if (loop === null) return null;
  const compiled = runtime.compile(loop.bytes);
  const constants = wordsOf(loop), streams = streamsOf(loop);
  const { range, grain, cost, faults, keepsValues } = loop;
  let inPlace: PartialRunner | null = null;
  return {
    source: `// WebAssembly, ${loop.bytes.length} bytes`,
    run(inputs, outputs) {
      const { words, memory } = runtime;
      const count = inputs.length + outputs.length;
      for (let k = 0; k < count; k++) {
        const address = memory.addressOf(
          k < inputs.length ? inputs[k]! : outputs[k - inputs.length]!,
        );
        if (address === null) return false;
        words[k] = address;
      }
      if (keepsValues && overlap(words, inputs.length, count)) {
        inPlace ??= loopRunner(kernel, runtime, check, false)!;
        return inPlace.run(inputs, outputs);
      }
      for (let k = 0; k < constants.length; k++) words[count + k] = constants[k]!;
      for (const { place, stream } of streams) words[count + place] = stream.value;
      runtime.run(compiled, range, grain, cost);
      for (const { indirect, value, high, isFound } of faults) {
        if (words[count + isFound] === 0) continue;
        const low = words[count + value]!;
        const index = high === null ? low : words[count + high]! * 2 ** 32 + (low >>> 0);
        check(index, indirect.size, indirect.opName);
      }
      return true;
    },
  };
}

/** True when an output is an input as well. */
function overlap(addresses: Int32Array, inputs: number, count: number): boolean {
  for (let k = inputs; k < count; k++) {
    for (let i = 0; i < inputs; i++) if (addresses[i] === addresses[k]) return true;
  }
  return false;
}

/** The random streams, and which words they are: a replay draws anew. */
function streamsOf({ parameters }: GeneratedLoop): { place: number; stream: RandomStream }[] {
  return parameters.flatMap((p, place) => p.kind === "stream" ? [{ place, stream: p.stream }] : []);
}

/** The words that are the same in every run. */
function wordsOf({ parameters }: GeneratedLoop): Int32Array {
  const floats = new Float32Array(parameters.length);
  const words = new Int32Array(floats.buffer);
  parameters.forEach((p, k) => {
    if (p.kind === "constant") floats[k] = p.value;
    else if (p.kind === "index") words[k] = p.value;
  });
  return words;
}
