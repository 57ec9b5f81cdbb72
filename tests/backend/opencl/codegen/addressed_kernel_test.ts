/** Kernels that take their arguments as words. */
import { assertEquals } from "@std/assert";
import { addressedKernel, wordsOf } from "../../../../backend/opencl/codegen/addressed_kernel.ts";
import { generated } from "../../../../backend/opencl/codegen/generated.ts";
import { DeviceAddresses, TELLER } from "../../../../backend/opencl/runtime/addresses.ts";
import { AddressedArguments } from "../../../../backend/opencl/runtime/kernel_arguments.ts";
import type { DType } from "../../../../backend/graph/dtype.ts";
import { Buffer, Program } from "../../../../ffi/mod.ts";
import { backendOf } from "../../../../backend/internal.ts";
import { openCLDevice, testOpenCL } from "../../../opencl.ts";

/** A number of each type, as it is to arrive. */
const numbers: readonly (readonly [dtype: DType, value: number])[] = [
  ["float32", -1.5],
  ["int32", -7],
  ["int64", -(2 ** 40)],
  ["uint8", 200],
  ["float64", 0.1],
];

testOpenCL("addressedKernel gets buffers, where they begin, and numbers of each type", () => {
  const queue = openCLDevice.queue!, { context, device } = queue;
  const hasDoubles = backendOf(openCLDevice).capabilities.dtypes.has("float64");
  const types = numbers.filter(([dtype]) => dtype !== "float64" || hasDoubles);
  const kernel = generated({
    inputs: ["int32"],
    outputs: [hasDoubles ? "float64" : "float32", "int64"],
    parameters: [
      ...types.map(([dtype, value]) => ({ kind: "constant", dtype, value }) as const),
      { kind: "index", value: 2 ** 33 } as const,
    ],
    checksIndices: false,
    isWide: true,
    global: [1],
    local: [1],
    body: `${types.map((_, k) => `  o0[${k}] = p${k};`).join("\n")}\n  o1[0] = a0[0];` +
      `\n  o1[1] = p${types.length};`,
  });
  using program = new Program(context, addressedKernel("k", kernel)).build();
  using teller = new Program(context, TELLER.text).build();
  const addresses = new DeviceAddresses(context, device, () => teller.kernel(TELLER.name));
  const args = new AddressedArguments(() => program.kernel("k"), addresses, wordsOf(kernel));
  using input = new Buffer(context, 4096), values = new Buffer(context, 4096);
  using whole = new Buffer(context, 4096);
  try {
    queue.write(input, Int32Array.of(0, 0, 0, -9), { blocking: true }).release();
    [input, values, whole].forEach((buffer, k) => args.setBuffer(k, buffer));
    [3, 2, 1].forEach((start, k) => args.setIndex(3 + k, start));
    args.setParameters(6, kernel.parameters, true);
    args.settle();
    queue.enqueueKernel(args.kernel, 1, BigUint64Array.of(1n), null);
    const got = new (hasDoubles ? Float64Array : Float32Array)(2 + types.length);
    const indices = new BigInt64Array(3);
    queue.read(values, got, { blocking: true }).release();
    queue.read(whole, indices, { blocking: true }).release();
    assertEquals([...got.subarray(2)], types.map(([, value]) => value));
    assertEquals([...indices.subarray(1)], [-9n, 2n ** 33n]);
  } finally {
    args.kernel.release();
    addresses.release();
  }
});
