import { assertEquals, assertRejects } from "@std/assert";
import { SharedWait } from "../../../ffi/events/shared_wait.ts";

/** A wait whose turns end by hand. */
function manual(): { readonly turns: PromiseWithResolvers<void>[]; readonly wait: SharedWait } {
  const turns: PromiseWithResolvers<void>[] = [];
  const wait = new SharedWait(() => {
    const turn = Promise.withResolvers<void>();
    turns.push(turn);
    return turn.promise;
  });
  return { turns, wait };
}

Deno.test("SharedWait begins at once, and one more time for all who come meanwhile", async () => {
  const { turns, wait } = manual();
  const first = wait.join();
  const second = wait.join(), third = wait.join();
  assertEquals(turns.length, 1);
  turns[0]!.resolve();
  await first;
  await Promise.resolve();
  assertEquals(turns.length, 2);
  turns[1]!.resolve();
  await Promise.all([second, third]);
  const later = wait.join();
  assertEquals(turns.length, 3);
  turns[2]!.resolve();
  await later;
});

Deno.test("SharedWait goes on after a wait that failed, which fails for its own callers only", async () => {
  const { turns, wait } = manual();
  const first = wait.join(), second = wait.join();
  turns[0]!.reject(new Error("lost"));
  await assertRejects(() => first, Error, "lost");
  await Promise.resolve();
  turns[1]!.resolve();
  await second;
  assertEquals(turns.length, 2);
});
