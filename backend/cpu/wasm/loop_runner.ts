/** Runs loop kernels in WebAssembly. */
import type { LoopKernel } from "../../graph/kernel.ts";
import type { Runner } from "../runner.ts";
import { type GeneratedLoop, generateLoop } from "./loop.ts";
import { addressOf } from "./memory.ts";
import type { WasmRuntime } from "./runtime.ts";

/**
 * The runner of a kernel, or null where it has no vectors. `otherwise` makes one for blocks that lie
 * outside the memory that WebAssembly sees.
 */
export function loopRunner(
  kernel: LoopKernel,
  runtime: WasmRuntime,
  otherwise: () => Runner,
): Runner | null {
  const loop = generateLoop(kernel, runtime.relaxed);
  if (loop === null) return null;
  const compiled = runtime.compile(loop.bytes);
  const constants = wordsOf(loop);
  const { range, grain, cost } = loop;
  let plain: Runner | null = null;
  return {
    source: `// WebAssembly, ${loop.bytes.length} bytes`,
    run(inputs, outputs) {
      const { words } = runtime;
      const count = inputs.length + outputs.length;
      for (let k = 0; k < count; k++) {
        const address = addressOf(k < inputs.length ? inputs[k]! : outputs[k - inputs.length]!);
        if (address === null) return (plain ??= otherwise()).run(inputs, outputs);
        words[k] = address;
      }
      for (let k = 0; k < constants.length; k++) words[count + k] = constants[k]!;
      runtime.run(compiled, range, grain, cost);
    },
  };
}

function wordsOf({ parameters }: GeneratedLoop): Int32Array {
  const floats = new Float32Array(parameters.length);
  const words = new Int32Array(floats.buffer);
  parameters.forEach((p, k) => {
    if (p.kind === "constant") floats[k] = p.value;
    else words[k] = p.kind === "index" ? p.value : p.stream.value;
  });
  return words;
}
