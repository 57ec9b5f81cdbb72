/** Kernels that users wrote, on the host: their `cpu` functions. */
import { type DType, dtypes, fromBfloat16Bits, toBfloat16Bits } from "../../graph/dtype.ts";
import type { TypedArray } from "../../graph/dtype.ts";
import type { CustomKernelCall } from "../../kernel/kernel.ts";
import { sizeOf } from "../../graph/shape.ts";
import { arraysOf, type HostBlock, type Runner } from "./runner.ts";

/** A runner that calls the `cpu` function; bfloat16 is Float32Array there. */
export function customRunner({ call, inputs, stored }: CustomKernelCall): Runner {
  const { kernel, outputs, numbers } = call;
  const cpu = kernel.cpu!;
  const types = stored.map((k): DType => outputs[k]!.dtype);
  return {
    source: `${cpu}`,
    run(reads: readonly HostBlock[], writes: readonly HostBlock[]): void {
      const given = arraysOf(reads, inputs).map((array, k) => readable(array, inputs[k]!));
      const places = arraysOf(writes, types);
      const results = outputs.map(({ shape, dtype }, k) => {
        const at = stored.indexOf(k);
        return at >= 0 && dtype !== "bfloat16" ? places[at]! : emptyArray(dtype, sizeOf(shape));
      });
      const end: unknown = cpu(given, results, [...numbers]);
      if (end instanceof Promise) {
        end.catch(() => {}); // this is the error
        throw new TypeError(
          `Cannot compute the kernel ${kernel.name} by an asynchronous function: its outputs are read ` +
            `when it returns; pass a cpu function without await`,
        );
      }
      stored.forEach((k, at) => {
        if (types[at] === "bfloat16") storeBfloat16(results[k]!, places[at]!);
      });
    },
  };
}

function readable(array: TypedArray, dtype: DType): TypedArray {
  return dtype === "bfloat16"
    ? Float32Array.from(array as ArrayLike<number>, fromBfloat16Bits)
    : array;
}

function emptyArray(dtype: DType, size: number): TypedArray {
  if (dtype === "bfloat16") return new Float32Array(size);
  const { bytes, view } = dtypes[dtype];
  return view(new ArrayBuffer(size * bytes), 0, size);
}

function storeBfloat16(values: TypedArray, into: TypedArray): void {
  for (let k = 0; k < values.length; k++) into[k] = toBfloat16Bits(Number(values[k]));
}
