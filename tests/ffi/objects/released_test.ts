/**
 * Released owners say so: every member of every class that owns something of the driver is used
 * after `release()`, by reflection. A new class, or a new method, is tested or fails the test.
 */
import { assert, assertEquals, assertThrows } from "@std/assert";
import * as ffi from "../../../ffi/mod.ts";
import {
  Buffer,
  CommandBuffer,
  CommandQueue,
  Context,
  type Device,
  DisposedError,
  Image,
  OpenCLError,
  Program,
  Sampler,
  type SubDevice,
  SvmBuffer,
  UserEvent,
} from "../../../ffi/mod.ts";
import { context, device, hasOpenCL, program, queue, testOpenCL } from "../fixture.ts";

interface Owner extends Disposable {
  readonly released: boolean;
  readonly unsafeHandle: bigint;
  release(): void;
}

const source = "kernel void f(global int* x) { x[0] = 1; }";
const format = { order: "RGBA", type: "UNSIGNED_INT8" } as const;
const bytes = new Uint8Array(16), sizes = new BigUint64Array([1n]);
const svm = hasOpenCL && SvmBuffer.isAvailable(device);

/** Makers of an object of each class; null where this device has none. */
const makers: { readonly [name: string]: (() => Owner) | null } = hasOpenCL
  ? {
    SubDevice: device.query("PARTITION_MAX_SUB_DEVICES") < 2 || device.maxComputeUnits < 2
      ? null
      : () => device.partition({ counts: [1] })[0]!,
    Context: () => new Context(device),
    CommandQueue: () => new CommandQueue(context),
    Buffer: () => new Buffer(context, 64),
    MappedRegion: () => queue.map(buffer),
    Image: device.query("IMAGE_SUPPORT") ? () => new Image(context, { format, width: 1 }) : null,
    Sampler: () => new Sampler(context),
    SvmBuffer: svm ? () => new SvmBuffer(context, 64) : null,
    Program: () => new Program(context, source).build(),
    Kernel: () => program.kernel("put"),
    Event: () => queue.marker(),
    UserEvent: () => new UserEvent(context),
    CommandBuffer: device.extensions.includes("cl_khr_command_buffer")
      ? () => new CommandBuffer(queue)
      : null,
  }
  : {};

const buffer = hasOpenCL ? new Buffer(context, 64) : undefined!;
const image = () => new Image(context, { format, width: 1 });
const kernel = () => program.kernel("put");

/** Arguments of methods, where they need any. */
const calls: { readonly [member: string]: () => unknown[] } = {
  "SubDevice.query": () => ["NAME"],
  "SubDevice.partition": () => [{ equally: 1 }],
  "CommandQueue.write": () => [buffer, bytes],
  "CommandQueue.read": () => [buffer, bytes],
  "CommandQueue.copy": () => [buffer, buffer, { nbytes: 16, destinationOffset: 32 }],
  "CommandQueue.writeRect": () => [buffer, bytes, { region: [4, 4, 1] }],
  "CommandQueue.readRect": () => [buffer, bytes, { region: [4, 4, 1] }],
  "CommandQueue.copyRect": () => [buffer, buffer, { region: [4, 4, 1] }],
  "CommandQueue.fill": () => [buffer, bytes],
  "CommandQueue.run": () => [kernel(), { global: [1], args: [buffer, 1] }],
  "CommandQueue.enqueueKernel": () => [ready(), 1, sizes, null],
  "CommandQueue.enqueueKernelHeld": () => [ready(), 1, sizes, null],
  "CommandQueue.enqueueKernelEvent": () => [ready(), 1, sizes, null],
  "CommandQueue.map": () => [buffer],
  "CommandQueue.migrate": () => [[buffer]],
  "Buffer.subBuffer": () => [0, 16],
  "Image.write": () => [queue, bytes],
  "Image.read": () => [queue, bytes],
  "Image.fill": () => [queue, new Uint32Array(4)],
  "Image.copyTo": () => [queue, image()],
  "Image.copyToBuffer": () => [queue, buffer],
  "Image.copyFromBuffer": () => [queue, buffer],
  "SvmBuffer.map": () => [queue],
  "SvmBuffer.unmap": () => [queue],
  "SvmBuffer.fill": () => [queue, bytes],
  "SvmBuffer.copyTo": () => [queue, new SvmBuffer(context, 64)],
  "Program.setSpecializationConstant": () => [0, bytes],
  "Program.kernel": () => ["f"],
  "Program.log": () => [device],
  "Program.binary": () => [device],
  "Kernel.setBuffer": () => [0, buffer],
  "Kernel.setBytes": () => [1, new Int32Array(1)],
  "Kernel.setLocal": () => [0, 16],
  "Kernel.setObject": () => [0, new Sampler(context)],
  "Kernel.setSvm": () => [0, svm ? new SvmBuffer(context, 64) : null],
  "Kernel.setNumber": () => [1, 5],
  "Kernel.setArg": () => [1, 5],
  "Kernel.setArgs": () => [[buffer, 1]],
  "Kernel.argument": () => [0],
  "CommandBuffer.run": () => [kernel(), { global: [1], args: [buffer, 1] }],
  "CommandBuffer.copy": () => [buffer, buffer, { nbytes: 16, destinationOffset: 32 }],
  "CommandBuffer.fill": () => [buffer, bytes],
};

function ready() {
  const made = kernel();
  made.setArgs([buffer, 1]);
  return made;
}

/** Members that go on after the release, and why. */
const goesOn: { readonly [member: string]: string } = {
  "*.release": "a second one does nothing",
  "*.released": "says so",
  "*.constructor": "no member",
  "Context.isNamedBy": "asks no driver: programs of the context outlive it",
  "Context.deviceOf": "asks no driver: programs of the context outlive it",
  "CommandQueue.mayBeBusy": "asked by those who wait for its work",
  "CommandQueue.hold": "the events of the queue's commands outlive it",
  "MappedRegion.bytes": "an empty view",
  "Program.buildOptions": "asks no driver",
  "MappedRegion.unmap": "returns the event of the first",
  "SvmBuffer.bytes": "an empty view",
};

/** Every getter and method of an object, from its class up to Object. */
function membersOf(object: object): Map<string, PropertyDescriptor> {
  const members = new Map<string, PropertyDescriptor>();
  for (
    let p = Object.getPrototypeOf(object);
    p !== Object.prototype;
    p = Object.getPrototypeOf(p)
  ) {
    for (const [name, descriptor] of Object.entries(Object.getOwnPropertyDescriptors(p))) {
      if (!members.has(name)) members.set(name, descriptor);
    }
  }
  return members;
}

async function errorOf(fn: () => unknown): Promise<unknown> {
  try {
    await fn();
    return null;
  } catch (error) {
    return error;
  }
}

for (const [name, make] of Object.entries(makers)) {
  Deno.test({
    name: `every member of a released ${name} is a clear error, or goes on for a reason`,
    ignore: make === null,
    async fn(t) {
      for (const [member, descriptor] of membersOf(make!())) {
        if (`${name}.${member}` in goesOn || `*.${member}` in goesOn) continue;
        await t.step(member, async () => {
          const object = make!();
          const args = (calls[`${name}.${member}`] ??
            calls[`${Object.getPrototypeOf(object.constructor).name}.${member}`] ?? (() => []))();
          object.release();
          const use = () =>
            descriptor.get
              ? descriptor.get.call(object)
              : (descriptor.value as (...args: unknown[]) => unknown).apply(object, args);
          const error = await errorOf(use);
          assert(error instanceof DisposedError, `${name}.${member}: ${error}`);
          assert(/Cannot use this \w+: it was released/.test(error.message), error.message);
        });
      }
    },
  });
}

testOpenCL("every class that owns something is in the table above", () => {
  const owners = Object.entries(ffi).filter(([, value]) =>
    typeof value === "function" && typeof value.prototype?.release === "function" &&
    value !== ffi.OpenCLObject
  );
  assertEquals(owners.map(([name]) => name).filter((name) => !(name in makers)), []);
});

testOpenCL("members that go on after a release do so, and view nothing", async () => {
  const region = queue.map(buffer);
  region.release();
  assertEquals([region.bytes.length, region.unmap() === region.unmap()], [0, true]);
  const mine = new CommandQueue(context);
  using event = mine.read(buffer, new Uint8Array(4));
  mine.release();
  let finished = false;
  mine.hold(event, bytes, () => finished = true);
  await event.wait();
  assert(finished);
});

testOpenCL("commands refuse what was released, whichever of their objects it is", async () => {
  const gone = new Buffer(context, 64), event = queue.marker();
  gone.release();
  event.release();
  const uses: (() => unknown)[] = [
    () => queue.read(gone, bytes),
    () => queue.copy(buffer, gone),
    () => queue.copy(gone, buffer),
    () => queue.fill(gone, bytes),
    () => queue.map(gone),
    () => queue.migrate([gone]),
    () => queue.marker([event]),
    () => queue.fill(buffer, bytes, { wait: [event] }),
    () => kernel().setBuffer(0, gone),
    () => queue.run(kernel(), { global: [1], args: [gone, 1] }),
    () => {
      const set = ready(), brief = new Buffer(context, 64);
      set.setBuffer(0, brief);
      queue.enqueueKernel(set, 1, sizes, null);
      brief.release();
      try {
        queue.enqueueKernel(set, 1, sizes, null);
      } catch {
        // The second time, too.
      }
      queue.enqueueKernel(set, 1, sizes, null);
    },
  ];
  for (const use of uses) {
    const error = await errorOf(use);
    assert(error instanceof DisposedError, `${use}: ${error}`);
  }
});

Deno.test("a program for a part of a device knows it, and has a binary for it", {
  ignore: !makers.SubDevice,
}, () => {
  const [part] = device.partition({ counts: [1] }) as [SubDevice];
  using own = new Context(part);
  using built = new Program(own, source).build();
  assert(built.devices[0] === (part as Device));
  const binary = built.binary(part);
  assert(binary.length > 0);
  using again = Program.fromBinary(own, part, binary).build();
  assertEquals(again.kernelNames, ["f"]);
  part.release();
  assert(built.devices[0] === (part as Device), "also after the release");
  assertEquals(built.binary(part).length, binary.length);
  using broken = new Program(own, "kernel void f( {");
  assertThrows(() => broken.build(), OpenCLError);
});
