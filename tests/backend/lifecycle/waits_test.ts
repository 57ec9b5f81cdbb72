import { assert } from "@std/assert";
import { waitSync } from "../../../backend/lifecycle/waits.ts";

/** The number of questions so far. */
let looks = 0;

/** Waits for something that is done so many milliseconds from now; gives back how long that took. */
function wait(milliseconds: number, onLook: (elapsed: () => number) => void = () => {}): number {
  const start = performance.now(), elapsed = () => performance.now() - start;
  waitSync(() => {
    looks++;
    onLook(elapsed);
    return elapsed() >= milliseconds;
  });
  return elapsed();
}

/** The number of questions of a wait. */
function looksOf(milliseconds: number): number {
  looks = 0;
  wait(milliseconds);
  return looks;
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
  const after = (): number => {
    wait(20);
    for (let k = 0; k < 8; k++) waitSync(() => true);
    return looksOf(20);
  };
  assert(least(after) < 40, `${looks} looks`);
});

Deno.test("a wait that could not ask on its way does not make the next ones ask too early", () => {
  const after = (): number => {
    let asked = 0;
    wait(20);
    // The second question comes late, as where another thread has the core.
    wait(20, (elapsed) => {
      while (asked > 0 && elapsed() < 20);
      asked++;
    });
    return looksOf(20);
  };
  assert(least(after) < 30, `${looks} looks`);
});

Deno.test("long waits among short ones are asked seldom", () => {
  const after = (): number => {
    for (let k = 0; k < 4; k++) [0.2, 20].forEach((milliseconds) => wait(milliseconds));
    wait(0.2);
    return looksOf(20);
  };
  assert(least(after) < 60, `${looks} looks`);
});
