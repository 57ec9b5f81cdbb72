import { assert, assertEquals } from "@std/assert";
import { CommandQueue, liveQueues, onQueueCreated } from "../../../ffi/mod.ts";
import { context, queue, testOpenCL } from "../fixture.ts";

testOpenCL("liveQueues knows every queue until its release", () => {
  const seen: CommandQueue[] = [];
  using _listening = onQueueCreated((queue) => seen.push(queue));
  const mine = new CommandQueue(context);
  assertEquals(seen, [mine]);
  assert(liveQueues().includes(mine));
  mine.release();
  assert(!liveQueues().includes(mine));
  assert(liveQueues().includes(queue));
});

testOpenCL("onQueueCreated ends when it is disposed of", () => {
  let calls = 0;
  onQueueCreated(() => calls++)[Symbol.dispose]();
  new CommandQueue(context).release();
  assertEquals(calls, 0);
});
