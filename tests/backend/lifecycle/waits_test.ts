import { assert } from "@std/assert";
import { waitSync } from "../../../backend/lifecycle/waits.ts";

/** Waits for something that is done so many milliseconds from now; gives back how long that took. */
function wait(milliseconds: number): number {
  const start = performance.now();
  waitSync(() => performance.now() - start >= milliseconds);
  return performance.now() - start;
}

/** The least of a few: what a machine that is busy with other things does not add to. */
function least(of: () => number): number {
  return Math.min(...Array.from({ length: 5 }, of));
}

Deno.test("a wait ends soon after what it waits for", () => {
  assert(least(() => wait(10)) < 12);
});

Deno.test("a long wait does not prolong the short ones after it", () => {
  const shortly = least(() => {
    wait(20);
    wait(0.1); // may come as a surprise
    return wait(0.1);
  });
  assert(shortly < 1, `${shortly} ms`);
});

Deno.test("what is done at once teaches nothing about waits", () => {
  let looks = 0;
  const twenty = (): void => {
    const start = performance.now();
    waitSync(() => {
      looks++;
      return performance.now() - start >= 20;
    });
  };
  const looksOf = (): number => {
    twenty();
    for (let k = 0; k < 8; k++) waitSync(() => true);
    looks = 0;
    twenty();
    return looks;
  };
  assert(least(looksOf) < 40, `${looks} looks`);
});
