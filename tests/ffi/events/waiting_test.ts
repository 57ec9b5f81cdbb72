import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { Buffer, Program, setWaitPolicy, type WaitPolicy } from "../../../ffi/mod.ts";
import { context, program, queue, testOpenCL } from "../fixture.ts";

class Interrupted extends Error {}

function withPolicy<T>(policy: WaitPolicy, fn: () => T): T {
  const former = setWaitPolicy(policy);
  try {
    return fn();
  } finally {
    assertEquals(setWaitPolicy(former), policy);
  }
}

/** Polls to the end, and counts. */
function patient(): WaitPolicy & { waits: number } {
  const policy = {
    waits: 0,
    waitSync(isDone: () => boolean): void {
      policy.waits++;
      while (!isDone());
    },
    wait: <T>(promise: Promise<T>): Promise<T> => promise,
  };
  return policy;
}

const impatient: WaitPolicy = {
  waitSync() {
    throw new Interrupted();
  },
  async wait<T>(promise: Promise<T>): Promise<T> {
    await promise;
    throw new Interrupted();
  },
};

testOpenCL("every synchronous wait goes through the policy", () => {
  using buffer = new Buffer(context, 4, { data: new Int32Array([3]) });
  const policy = patient();
  const out = new Int32Array(1);
  withPolicy(policy, () => {
    queue.finishSync();
    using marker = queue.marker();
    marker.waitSync();
    queue.read(buffer, out, { blocking: true }).release();
    queue.write(buffer, new Int32Array([4]), { blocking: true }).release();
    using region = queue.map(buffer);
    assertEquals(new Int32Array(region.bytes.buffer)[0], 4);
  });
  assertEquals([policy.waits, out[0]], [5, 3]);
});

testOpenCL("a policy can give up a synchronous wait, and the work goes on", async () => {
  using buffer = new Buffer(context, 4, { data: new Float32Array([1]) });
  using kernel = program.kernel("spin");
  queue.run(kernel, { global: [1], local: [1], args: [buffer, 100] }).release();
  const out = new Float32Array(1);
  withPolicy(impatient, () => {
    assertThrows(() => queue.finishSync(), Interrupted);
    assertThrows(() => queue.read(buffer, out, { blocking: true }), Interrupted);
  });
  await queue.finish();
  assert(out[0] !== 0, "the read that was given up has still been made");
});

testOpenCL("every asynchronous wait can be rejected by the policy", async () => {
  using event = queue.marker();
  using fresh = new Program(context, "kernel void f() {}");
  const waits = withPolicy(impatient, () => [queue.finish(), event.wait(), fresh.buildAsync()]);
  await Promise.all(waits.map((wait) => assertRejects(() => wait, Interrupted)));
});
