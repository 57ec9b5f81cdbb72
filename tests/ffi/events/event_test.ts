import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer, CommandQueue, OpenCLError, UserEvent } from "../../../ffi/mod.ts";
import { context, device, program, queue, testOpenCL } from "../fixture.ts";

testOpenCL("Event tells what command it is and how far it is", async () => {
  using buffer = new Buffer(context, 4);
  using gate = new UserEvent(context);
  using fill = queue.fill(buffer, new Int32Array([1]), { wait: [gate] });
  assertEquals([gate.command, fill.command], ["USER", "FILL_BUFFER"]);
  assertEquals(gate.status, "submitted");
  assert(["queued", "submitted"].includes(fill.status));
  gate.complete();
  await fill.wait();
  assertEquals([gate.status, fill.status], ["complete", "complete"]);
});

testOpenCL("Event.wait resolves at once when it is complete, and again", async () => {
  using buffer = new Buffer(context, 4);
  using event = queue.fill(buffer, new Int32Array([1]));
  await event.wait();
  await event.wait();
  event.waitSync();
  assertEquals(event.status, "complete");
});

testOpenCL("Event.wait gives waiting callers one promise", async () => {
  using gate = new UserEvent(context);
  const waiting = gate.wait();
  assertEquals(gate.wait() === waiting, true);
  gate.complete();
  await waiting;
});

testOpenCL("Event may be released while it is waited for", async () => {
  const gate = new UserEvent(context);
  using marker = queue.marker([gate]);
  const waiting = marker.wait();
  marker.release();
  gate.complete();
  gate.release();
  await waiting;
});

testOpenCL("Event: a failed command rejects with its own code, not that of the wait", async () => {
  using gate = new UserEvent(context);
  gate.complete(-5);
  const error = await assertRejects(() => gate.wait(), OpenCLError);
  assertEquals([error.code, error.codeName, error.call], [
    -5,
    "CL_OUT_OF_RESOURCES",
    "clWaitForEvents",
  ]);
  assert(error.outOfMemory);
  assertEquals(assertThrows(() => gate.waitSync(), OpenCLError).code, -5);
  assertThrows(() => gate.status, OpenCLError, "CL_OUT_OF_RESOURCES");
});

testOpenCL("Event: more waits than Deno has threads do not stand behind each other", async () => {
  const gates = Array.from({ length: 40 }, () => new UserEvent(context));
  const order: number[] = [];
  const waits = gates.map((gate, i) => gate.wait().then(() => order.push(i)));
  // The last one first: it must not depend on those that were waited for before it.
  for (const gate of gates.toReversed()) {
    gate.complete();
    await gate.wait();
  }
  await Promise.all(waits);
  assertEquals(order.length, 40);
  for (const gate of gates) gate.release();
});

testOpenCL("Event: a profiled event has time stamps in order", async () => {
  using profiled = new CommandQueue(context, device, { profiling: true });
  using buffer = new Buffer(context, 4, { data: new Float32Array([1]) });
  using kernel = program.kernel("spin");
  using event = profiled.run(kernel, { global: [1], local: [1], args: [buffer, 5] });
  await event.wait();
  const { queued, submitted, started, ended } = event.profile;
  assert(queued <= submitted && submitted <= started && started < ended);
  assertEquals(event.durationMs, (ended - started) / 1e6);
});

testOpenCL("Event of a queue without profiling has none, and says what to do", async () => {
  using event = queue.marker();
  await event.wait();
  const error = assertThrows(() => event.durationMs, OpenCLError);
  assertEquals(error.codeName, "CL_PROFILING_INFO_NOT_AVAILABLE");
  assert(error.message.includes("{ profiling: true }"));
});
