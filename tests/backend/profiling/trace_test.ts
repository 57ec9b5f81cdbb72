import { assert, assertEquals, assertThrows } from "@std/assert";
import { manager, profiler } from "../../../backend/mod.ts";
import { liveObjects, OpenCLError, withFaults } from "../../../ffi/mod.ts";
import { Tensor } from "../../../mod.ts";
import { testOnBackends, testOpenCL } from "../../opencl.ts";
import { traced } from "./traced.ts";

/** Traces a function; gives back the slices on the lanes of the host and of the device. */
async function slicesOf(fn: () => void) {
  const { events, error } = await traced(fn);
  const lane = (id: number) => events.filter(({ ph, tid }) => ph === "X" && tid === id);
  // Builds and waits are on the host's lane, too.
  const host = lane(1).filter(({ name }) => name.startsWith("enqueue "));
  return { host, device: lane(2), error };
}

function work(): Tensor {
  return Tensor.arange(1000, undefined, 1, { device: manager.default("cl") }).mul(3).sin();
}

testOpenCL("Trace has what was enqueued, and when the device ran it", async () => {
  using values = work();
  const { host, device } = await slicesOf(() => void values.realize());
  assertEquals(host.map(({ name }) => name), device.map(({ name }) => `enqueue ${name}`));
  assertEquals(device.map(({ args }) => args!.bytes), [4000]);
  const [enqueued] = host, [ran] = device;
  assert(ran!.dur! > 0 && ran!.ts! >= enqueued!.ts!, `${enqueued!.ts}, then ${ran!.ts}`);
});

testOpenCL(
  "Trace is written also where the device failed, and holds nothing afterwards",
  async () => {
    using first = work(), second = Tensor.ones([10], { device: manager.default("cl") }).add(1);
    work().realize().dispose();
    const before = liveObjects().Event;
    const fault = { call: "clGetEventProfilingInfo", nth: 1, status: -7 } as const;
    const { host, device, error } = await withFaults([fault], () =>
      slicesOf(() => {
        first.realize();
        second.realize();
      }));
    assert(error instanceof OpenCLError, `${error}`);
    assertEquals([host.length, device.length], [2, 1]);
    assertEquals(liveObjects().Event, before);
  },
);

Deno.test("Trace: one trace at a time is recorded", () => {
  const path = Deno.makeTempFileSync();
  {
    using _trace = profiler.trace(path);
    assertThrows(() => profiler.trace(path), Error, "dispose of that first");
  }
  profiler.trace(path)[Symbol.dispose]();
  Deno.removeSync(path);
});

testOnBackends("Trace: table and report tell what ran, in spans of the user", async (backend) => {
  const x = Tensor.rand([64, 64], { backend }).realize();
  {
    using _trace = profiler.trace();
    for (let k = 0; k < 3; k++) {
      using _span = profiler.span("forward");
      await x.matmul(x).add(k + 3).relu().sum().item();
    }
  }
  const rows = profiler.rows(), kernels = rows.filter(({ lane }) => lane === "kernel");
  assert(kernels.length > 0 && kernels.every(({ calls }) => calls === 3), JSON.stringify(rows));
  assert(kernels.every(({ total, least, most }) => 3 * least <= total && total <= 3 * most));
  const [span] = rows.filter(({ lane }) => lane === "span");
  assertEquals([span!.name, span!.calls], ["forward", 3]);
  const [head, ...lines] = profiler.table().split("\n");
  assert(/^name +where +calls +total ms/.test(head!));
  assertEquals(lines.length, rows.length);
  assertEquals(
    profiler.table({ limit: 1 }).split("\n").filter((line) => / kernel /.test(line)).length,
    1,
  );
  const path = Deno.makeTempFileSync({ suffix: ".html" });
  profiler.report(path);
  const page = Deno.readTextFileSync(path);
  Deno.removeSync(path);
  for (const { name } of rows) assert(page.includes(name.replaceAll("<", "&lt;")), name);
  assert(page.includes("prefers-color-scheme:dark") && !/https?:/.test(page));
});

testOpenCL("Trace has builds, waits, memory, and arrows from calls to the device", async () => {
  const device = manager.default("cl");
  const { events } = await traced(async () => {
    await Tensor.arange(1000, undefined, 1, { device }).mul(3.0718).tan().atan2(0.1234).sum()
      .item();
  });
  const names = new Set(events.map(({ name }) => name));
  assert(names.has("wait for the device"), [...names].join());
  const memory = events.filter(({ ph }) => ph === "C");
  assert(memory.length > 0 && memory.every(({ args }) => Number(args!["allocated bytes"]) > 0));
  const [begins, ends] = ["s", "f"].map((kind) => events.filter(({ ph }) => ph === kind));
  assertEquals(begins!.map(({ id }) => id), ends!.map(({ id }) => id));
  assert(begins!.length > 0);
  for (const { ts } of begins!) {
    const within = events.some((slice) =>
      slice.ph === "X" && slice.tid === 1 && slice.ts! <= ts! + 0.01 &&
      ts! <= slice.ts! + slice.dur! + 0.01
    );
    assert(within, "an arrow begins at a call");
  }
});

Deno.test("Trace: a span outside of a trace is nothing, and its name is a text", () => {
  profiler.span("nobody looks")[Symbol.dispose]();
  assertThrows(() => profiler.span(3 as unknown as string), Error, "pass a string");
  assertThrows(() => profiler.table({ limits: 3 } as never), TypeError, '"limits"');
});
