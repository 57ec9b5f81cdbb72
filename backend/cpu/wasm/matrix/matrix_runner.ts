/**
 * Runs programs of matrices in WebAssembly, matrices side by side in threads.
 *
 * This folder (`matrix/`) writes programs of `backend/matrix` as modules and runs them; it imports the
 * assembler of `wasm/` and `kernel/`.
 */
import { dtypes } from "../../../graph/dtype.ts";
import { sizeOf } from "../../../graph/shape.ts";
import type { CustomKernelCall } from "../../../kernel/kernel.ts";
import type { MatrixProgram } from "../../../matrix/language.ts";
import type { PartialRunner } from "../../script/runner.ts";
import type { WasmKernel, WasmRuntime } from "../runtime.ts";
import { argumentWords, matrixModule } from "./matrix_module.ts";
import { NoInstruction } from "./real_expressions.ts";

/** Nanoseconds of an element of a matrix: it is gone through some ten times. */
const ELEMENT_COST = 10;

const modules = new WeakMap<WasmRuntime, WeakMap<MatrixProgram, WasmKernel | null>>();

/** The module of a program; null where WebAssembly lacks a function. */
function moduleOf(program: MatrixProgram, runtime: WasmRuntime): WasmKernel | null {
  let known = modules.get(runtime);
  if (!known) modules.set(runtime, known = new WeakMap());
  let found = known.get(program);
  if (found === undefined) {
    try {
      found = runtime.compile(matrixModule(program, runtime.relaxed));
    } catch (error) {
      if (!(error instanceof NoInstruction)) throw error;
      found = null;
    }
    known.set(program, found);
  }
  return found;
}

/** The runner of a kernel that is a program of matrices; null for another one. */
export function matrixRunner(
  { call, stored }: CustomKernelCall,
  runtime: WasmRuntime,
): PartialRunner | null {
  const program = call.kernel.program as MatrixProgram | null;
  if (program === null) return null;
  const module = moduleOf(program, runtime);
  if (module === null) return null;
  const { arrays, numbers } = program;
  const values = Object.fromEntries(numbers.map((name, k) => [name, call.numbers[k]!]));
  const bytes = arrays.map(({ isWhole, size }) =>
    size(values) * (isWhole ? 4 : dtypes[program.dtype].bytes)
  );
  const inputs = arrays.length - call.outputs.length;
  const outputBytes = call.outputs.map(({ shape, dtype }) => sizeOf(shape) * dtypes[dtype].bytes);
  const count = call.global[0]! / (call.local?.[0] ?? 1);
  const elements = bytes.reduce((sum, n, k) => arrays[k]!.isShared ? sum : sum + n, 0) / 4;
  return {
    source: `// WebAssembly SIMD: ${program.name}`,
    run(reads, writes) {
      const { memory, words } = runtime;
      // Results that nobody reads are written all the same.
      const scratch = new Map<number, number | null>();
      outputBytes.forEach((nbytes, k) => {
        if (!stored.includes(k)) scratch.set(k, memory.tryAllocate(nbytes));
      });
      try {
        const addresses = arrays.map((_, k) => {
          if (k < inputs) return memory.addressOf(reads[k]!);
          const output = k - inputs, at = stored.indexOf(output);
          return at < 0 ? scratch.get(output)! : memory.addressOf(writes[at]!);
        });
        if (addresses.includes(null)) return false;
        const steps = bytes.map((nbytes, k) => arrays[k]!.isShared ? 0 : nbytes);
        const given = [
          ...addresses.flatMap((address, k) => [address!, steps[k]!]),
          ...call.numbers,
        ];
        for (let k = 0; k < argumentWords(program); k++) words[k] = given[k]!;
        runtime.run(module, count, 1, count * elements * ELEMENT_COST);
        return true;
      } finally {
        for (const [k, address] of scratch) {
          if (address !== null) memory.deallocate(address, outputBytes[k]!);
        }
      }
    },
  };
}
