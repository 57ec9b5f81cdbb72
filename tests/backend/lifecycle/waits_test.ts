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

Deno.test("a wait that could not ask on its way does not make the next ones ask too early", () => {
  let looks = 0;
  const twenty = (isBlocked: boolean): void => {
    const start = performance.now();
    let asked = 0;
    waitSync(() => {
      looks++;
      // The second question comes late, as where another thread has the core.
      while (isBlocked && asked > 0 && performance.now() - start < 20);
      asked++;
      return performance.now() - start >= 20;
    });
  };
  const looksOf = (): number => {
    twenty(false);
    twenty(true);
    looks = 0;
    twenty(false);
    return looks;
  };
  assert(least(looksOf) < 30, `${looks} looks`);
});

Deno.test("long waits among short ones are asked seldom", () => {
  let looks = 0;
  const wait = (milliseconds: number): void => {
    const start = performance.now();
    waitSync(() => {
      looks++;
      return performance.now() - start >= milliseconds;
    });
  };
  const looksOf = (): number => {
    for (let k = 0; k < 4; k++) [0.2, 20].forEach(wait);
    wait(0.2);
    looks = 0;
    wait(20);
    return looks;
  };
  assert(least(looksOf) < 60, `${looks} looks`);
});
