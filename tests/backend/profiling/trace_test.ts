import { assert, assertEquals, assertThrows } from "@std/assert";
import { manager, profiler } from "../../../backend/mod.ts";
import { liveObjects, OpenCLError, withFaults } from "../../../ffi/mod.ts";
import { Tensor } from "../../../mod.ts";
import { testOpenCL } from "../../opencl.ts";

interface Slice {
  readonly name: string;
  readonly ph: string;
  readonly tid: number;
  readonly ts: number;
  readonly dur: number;
  readonly args: { readonly bytes?: number };
}

/** Traces `fn`; gives back the slices on the lanes of the host and of the device. */
function traced(fn: () => void): { host: Slice[]; device: Slice[]; error: unknown } {
  const path = Deno.makeTempFileSync({ suffix: ".json" });
  let error: unknown;
  try {
    const trace = profiler.trace(path);
    fn();
    try {
      trace[Symbol.dispose]();
    } catch (thrown) {
      error = thrown;
    }
    const { traceEvents } = JSON.parse(Deno.readTextFileSync(path)) as { traceEvents: Slice[] };
    const lane = (tid: number) =>
      traceEvents.filter((slice) => slice.ph === "X" && slice.tid === tid);
    return { host: lane(1), device: lane(2), error };
  } finally {
    Deno.removeSync(path);
  }
}

function work(): Tensor {
  return Tensor.arange(1000, undefined, 1, { device: manager.default("cl") }).mul(3).sin();
}

testOpenCL("a trace has what was enqueued, and when the device ran it", () => {
  using values = work();
  const { host, device } = traced(() => void values.realize());
  assertEquals(host.map(({ name }) => name), device.map(({ name }) => `enqueue ${name}`));
  assertEquals(device.map(({ args }) => args.bytes), [4000]);
  const [enqueued] = host, [ran] = device;
  assert(ran!.dur > 0 && ran!.ts >= enqueued!.ts, `${enqueued!.ts}, then ${ran!.ts}`);
});

testOpenCL("a trace is written also where the device failed, and holds nothing afterwards", () => {
  using first = work(), second = Tensor.ones([10], { device: manager.default("cl") }).add(1);
  work().realize().dispose();
  const before = liveObjects().Event;
  const { host, device, error } = withFaults(
    [{ call: "clGetEventProfilingInfo", nth: 1, status: -7 }],
    () =>
      traced(() => {
        first.realize();
        second.realize();
      }),
  );
  assert(error instanceof OpenCLError, `${error}`);
  assertEquals([host.length, device.length], [2, 1]);
  assertEquals(liveObjects().Event, before);
});

Deno.test("one trace at a time is recorded", () => {
  const path = Deno.makeTempFileSync();
  {
    using _trace = profiler.trace(path);
    assertThrows(() => profiler.trace(path), Error, "dispose of that first");
  }
  profiler.trace(path)[Symbol.dispose]();
  Deno.removeSync(path);
});
