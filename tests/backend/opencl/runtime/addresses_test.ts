/** Kernels that are told addresses, as NVIDIA's driver is given them: what they compute, and who keeps the memory. */
import { assert, assertEquals } from "@std/assert";
import { backendOf } from "../../../../backend/internal.ts";
import { addressedKernel, wordsOf } from "../../../../backend/opencl/codegen/addressed_kernel.ts";
import { generated } from "../../../../backend/opencl/codegen/generated.ts";
import { AddressedArguments } from "../../../../backend/opencl/runtime/kernel_arguments.ts";
import type { Block } from "../../../../backend/execution/backend.ts";
import type { DType } from "../../../../backend/graph/dtype.ts";
import { DeviceAddresses, TELLER } from "../../../../backend/opencl/runtime/addresses.ts";
import { compile, manualSeed, nn, optim, Tensor, withDevice } from "../../../../mod.ts";
import { DeviceHandle, manager } from "../../../../mod.ts";
import {
  Buffer,
  CommandQueue,
  type Kernel,
  MemFlags,
  Program,
  UserEvent,
} from "../../../../ffi/mod.ts";
import { cl, replaceSymbols } from "../../../../ffi/library/library.ts";
import { awaitDeferred } from "../../../../ffi/events/context_work.ts";
import { countingCalls } from "../../../ffi/counting_calls.ts";
import { SvmPool } from "../../../../memory/mod.ts";
import { hasOpenCL, openCLDevice, testOpenCL } from "../../../opencl.ts";
import { learn } from "../../../tensor/training.ts";
import { setVariables } from "../../../variables.ts";

/** Calls on a device of its own, whose kernels are told addresses or given memory objects. */
async function onDevice<T>(
  variables: Readonly<Record<string, string>>,
  fn: () => T | Promise<T>,
): Promise<T> {
  const { platformName, deviceName, clDevice } = manager.default("cl");
  const names = { platformName, deviceName, deviceType: "gpu", backend: "cl" } as const;
  const handle = new DeviceHandle(names, "cl", clDevice);
  using _set = setVariables(variables);
  try {
    return await withDevice(handle, fn);
  } finally {
    backendOf(handle).dispose();
    handle.close();
  }
}

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

/** Losses of a few steps, and the arguments and launches of the last. */
async function training(isCompiled: boolean) {
  manualSeed(5);
  const model = new nn.Sequential(
    new nn.Embedding(9, 8),
    new nn.Flatten(),
    new nn.Linear(24, 16),
    new nn.Dropout(0.2),
    new nn.BatchNorm1d(16),
    new nn.Linear(16, 9),
  );
  const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
  const step = (x: Tensor, y: Tensor): Tensor => learn(optimizer, model.forward(x).crossEntropy(y));
  const call = isCompiled ? compile(step) : step;
  const x = Tensor.randint(0, 9, [7, 3]).realize(), y = Tensor.randint(0, 9, [7]).realize();
  const losses: number[] = [];
  for (let k = 0; k < 5; k++) losses.push(await call(x, y).item());
  using calls = countingCalls();
  losses.push(await call(x, y).item());
  const { counts } = calls;
  const [set, launches] = ["clSetKernelArg", "clEnqueueNDRangeKernel"].map((name) =>
    counts.get(name) ?? 0
  );
  return { losses, set: set!, launches: launches! };
}

for (const isCompiled of [false, true]) {
  testOpenCL(
    `NETCL_ADDRESSES: ${
      isCompiled ? "compiled" : "plain"
    } steps learn the same with one argument a launch`,
    async () => {
      const listed = await onDevice({ NETCL_ADDRESSES: "0" }, () => training(isCompiled));
      const addressed = await onDevice({ NETCL_ADDRESSES: "1" }, () => training(isCompiled));
      assertEquals(addressed.losses, listed.losses);
      assertEquals(addressed.launches, listed.launches);
      assert(addressed.set <= addressed.launches, `${addressed.set} of ${addressed.launches}`);
      if (!isCompiled) assert(listed.set > 3 * listed.launches, `${listed.set} without addresses`);
    },
  );
}

Deno.test("NETCL_ADDRESSES: memory that may move is given to kernels as it was", {
  ignore: !hasOpenCL || !SvmPool.isAvailable(openCLDevice.queue!),
}, async () => {
  await onDevice({ NETCL_ADDRESSES: "1", NETCL_POOL: "svm" }, async () => {
    using x = Tensor.ones([100]);
    assertEquals(await x.mul(2).add(1).sum().item(), 300);
  });
});

Deno.test("AddressedArguments: a block behind the reach of an int is told by its address", () => {
  const told: bigint[] = [], base = {} as Buffer;
  const setBytes = (_at: number, words: BigUint64Array): void => void told.push(words[0]!);
  const addresses = { of: () => 1000n } as unknown as DeviceAddresses;
  const args = new AddressedArguments(() => ({ setBytes }) as unknown as Kernel, addresses, 1);
  for (const offset of [2 ** 31 + 8, 2 ** 31 + 16, 4]) {
    assert(args.setBlock(0, { base, offset } as Block));
    args.settle();
  }
  assertEquals(told, [1000n + 2n ** 31n + 8n, 1000n + 2n ** 31n + 16n, 1000n]);
});

/** Calls with addresses of buffers in the context of the tests. */
function withAddresses(fn: (addresses: DeviceAddresses) => void): void {
  const { context, device } = openCLDevice.queue!;
  using program = new Program(context, TELLER.text).build();
  const addresses = new DeviceAddresses(context, device, () => program.kernel(TELLER.name));
  try {
    fn(addresses);
  } finally {
    addresses.release();
  }
}

testOpenCL("DeviceAddresses has none of arrays, which the driver may copy", () => {
  const { context } = openCLDevice.queue!;
  withAddresses((addresses) => {
    using array = new Buffer(context, 4096, {
      data: new Uint8Array(4096),
      flags: MemFlags.USE_HOST_PTR,
    });
    using plain = new Buffer(context, 4096), other = new Buffer(context, 4096);
    assertEquals(addresses.of(array), null);
    const address = addresses.of(plain)!;
    assert(address > 0n && address !== addresses.of(other));
    assertEquals(addresses.of(plain), address);
  });
});

testOpenCL("Buffer.keepUntilIdle: what a kernel was told of stays until the kernel is done", () => {
  const { context, device } = openCLDevice.queue!;
  awaitDeferred(context.unsafeHandle);
  using queue = new CommandQueue(context, device), gate = new UserEvent(context);
  using other = new Buffer(context, 4096);
  const kept = new Buffer(context, 4096), handle = kept.unsafeHandle;
  kept.keepUntilIdle();
  kept.keepUntilIdle();
  queue.fill(other, new Uint8Array([1]), { wait: [gate] }).release();
  const genuine = cl, released: bigint[] = [];
  const former = replaceSymbols({
    ...genuine,
    clReleaseMemObject: (memory: typeof handle) => {
      released.push(memory);
      return genuine.clReleaseMemObject(memory);
    },
  });
  try {
    kept.release();
    openCLDevice.queue!.finishSync();
    assertEquals(released, [], "a command is still to come");
    gate.complete();
    queue.finishSync();
    awaitDeferred(context.unsafeHandle);
    assertEquals(released, [handle]);
  } finally {
    replaceSymbols(former);
  }
});
