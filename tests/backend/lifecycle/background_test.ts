import { assert, assertEquals, assertThrows } from "@std/assert";
import { advance, hasBackground, inBackground } from "../../../backend/lifecycle/background.ts";
import { leaveBehind, setCommunicationTimeout } from "../../../backend/communication/mod.ts";
import { waitSync } from "../../../backend/lifecycle/waits.ts";

/** Is done when it was asked so often. */
function after(times: number): { isDone(): boolean; asked: number } {
  return {
    asked: 0,
    isDone() {
      return ++this.asked >= times;
    },
  };
}

Deno.test("work in the background goes on in waits, and is asked no more once it is done", () => {
  const work = after(5);
  inBackground(work);
  waitSync(() => !hasBackground());
  advance();
  assertEquals([work.asked, hasBackground()], [5, false]);
});

Deno.test("work in the background goes on while the program awaits something", async () => {
  const work = after(3);
  inBackground(work);
  for (let k = 0; k < 100 && hasBackground(); k++) {
    await new Promise((resolve) => setTimeout(resolve, 5));
  }
  assertEquals(work.asked, 3);
});

Deno.test("what fails in the background holds nothing up, and is told to who waits next", async () => {
  inBackground({
    isDone: () => {
      throw new RangeError("lost");
    },
  });
  await new Promise((resolve) => setTimeout(resolve, 20));
  assertEquals(hasBackground(), false);
  assertThrows(() => waitSync(() => false), RangeError, "lost");
  advance();
});

Deno.test("who is left behind for too long is given up, once", () => {
  let ends = 0;
  setCommunicationTimeout(30);
  try {
    const left = leaveBehind("reduce gradients", { isDone: () => false }, () => ends++);
    assertThrows(() => waitSync(() => false), Error, "another rank has not done its part");
    assertEquals([left.isDone(), ends], [true, 1]);
  } finally {
    setCommunicationTimeout();
  }
  const good = leaveBehind("reduce gradients", after(2), () => ends++);
  waitSync(() => good.isDone());
  assert(good.isDone());
  assertEquals(ends, 2);
});
