/** Objects of another kind, and what is none, never reach the driver: it would follow them. */
import { assertStringIncludes, assertThrows } from "@std/assert";
import {
  Buffer,
  CommandQueue,
  Context,
  type Event,
  Image,
  type Kernel,
  platforms,
  Program,
  Sampler,
  SvmBuffer,
  UserEvent,
} from "../../../ffi/mod.ts";
import { testOpenCL } from "../../opencl.ts";

const source = "kernel void fill(global int* x, int n) { x[get_global_id(0)] = n; }";

/** A call with one argument of a kind; the value is whatever a caller without types passes. */
interface Use {
  readonly kind: string;
  // deno-lint-ignore no-explicit-any -- what a caller without types passes
  readonly call: (value: any) => unknown;
}

function usesOf(context: Context, queue: CommandQueue, buffer: Buffer, kernel: Kernel): Use[] {
  const bytes = new Uint8Array(8), [device] = context.devices, one = { global: [1] };
  const region = { region: [4, 1, 1] } as const;
  return [
    { kind: "Device", call: (value) => new Context(value) },
    { kind: "Device", call: (value) => new CommandQueue(context, value ?? 8) },
    { kind: "Device", call: (value) => Program.fromBinary(context, value, bytes) },
    { kind: "Context", call: (value) => new CommandQueue(value) },
    { kind: "Context", call: (value) => new Buffer(value, 64) },
    { kind: "Context", call: (value) => new Program(value, source) },
    { kind: "Context", call: (value) => Program.fromBinary(value, device!, bytes) },
    { kind: "Context", call: (value) => Program.link(value, []) },
    { kind: "Context", call: (value) => new UserEvent(value) },
    { kind: "Context", call: (value) => new Sampler(value) },
    { kind: "Context", call: (value) => new SvmBuffer(value, 64) },
    {
      kind: "Context",
      call: (value) => new Image(value, { width: 1, format: { order: "RGBA", type: "FLOAT" } }),
    },
    { kind: "Program", call: (value) => Program.link(context, [value]) },
    { kind: "Buffer", call: (value) => queue.read(value, bytes) },
    { kind: "Buffer", call: (value) => queue.write(value, bytes) },
    { kind: "Buffer", call: (value) => queue.copy(value, buffer) },
    { kind: "Buffer", call: (value) => queue.copy(buffer, value) },
    { kind: "Buffer", call: (value) => queue.copyRect(buffer, value, region) },
    { kind: "Buffer", call: (value) => queue.readRect(value, bytes, region) },
    { kind: "Buffer", call: (value) => queue.fill(value, bytes) },
    { kind: "Buffer", call: (value) => queue.map(value) },
    { kind: "Buffer", call: (value) => queue.migrate([value]) },
    { kind: "Buffer", call: (value) => kernel.setBuffer(0, value) },
    { kind: "Kernel", call: (value) => queue.run(value, one) },
    { kind: "Event", call: (value) => queue.marker([value]) },
    { kind: "Event", call: (value) => queue.read(buffer, bytes, { wait: [value] }) },
  ];
}

/** Handles of drivers are addresses: 8 is no object of any. */
const forged = { unsafeHandle: 8n, nbytes: 64, devices: [{ unsafeHandle: 8n }] };

testOpenCL("a wrong kind of object is a clear error wherever one is taken", () => {
  const platform = platforms()[0]!, device = platform.devices()[0]!;
  using context = new Context(device);
  using queue = new CommandQueue(context);
  using buffer = new Buffer(context, 64);
  using program = new Program(context, source).build();
  using kernel = program.kernel("fill");
  using event: Event = queue.marker();
  const objects: Record<string, unknown> = {
    Device: device,
    Context: context,
    Buffer: buffer,
    Program: program,
    Kernel: kernel,
    Event: event,
  };
  for (const { kind, call } of usesOf(context, queue, buffer, kernel)) {
    const others = Object.entries(objects).filter(([name]) => name !== kind);
    for (const value of [...others.map(([, object]) => object), platform, forged, 8, "x", null]) {
      const error = assertThrows(() => call(value), TypeError, "Cannot ");
      assertStringIncludes(error.message, `pass a ${kind}`);
    }
  }
});

testOpenCL("an argument of no kind that kernels take is named with what they take", () => {
  using context = new Context(platforms()[0]!.devices()[0]!);
  using program = new Program(context, source).build();
  using kernel = program.kernel("fill");
  for (const value of [context, program, undefined, null, "x", {}, { buffer: 8 }, [1]]) {
    assertThrows(() => kernel.setArg(0, value as never), TypeError, "argument 0 of fill to");
  }
  assertThrows(() => kernel.setArgs({} as never), TypeError, "Cannot launch fill with args");
});
