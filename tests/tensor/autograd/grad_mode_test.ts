/** Recording of operations: of the running task, and of what runs now. */
import { assertEquals } from "@std/assert";
import { enableGrad, isGradEnabled, noGrad } from "../../../mod.ts";
import { recording, withoutGrad } from "../../../tensor/core/modes/grad_mode.ts";

Deno.test("noGrad and enableGrad hold behind an await, and nowhere else", async () => {
  const seen: [string, boolean][] = [];
  const note = (where: string): void => void seen.push([where, isGradEnabled()]);
  const off = noGrad(async () => {
    note("off at once");
    await Promise.resolve();
    note("off later");
    await enableGrad(async () => {
      note("on within");
      await Promise.resolve();
      note("on within, later");
    });
    note("off again");
  });
  note("outside");
  await off;
  note("outside, later");
  const wrong = seen.filter(([where, isOn]) => isOn !== /^(outside|on)/.test(where));
  assertEquals(wrong, []);
  assertEquals(seen.length, 7);
});

Deno.test("what a plain function switches off is on for what it leaves to run later", async () => {
  let later = Promise.resolve(false);
  withoutGrad(() => {
    assertEquals(isGradEnabled(), false);
    assertEquals(recording(true, isGradEnabled), true);
    assertEquals(enableGrad(isGradEnabled), true);
    later = Promise.resolve().then(isGradEnabled);
  });
  assertEquals(isGradEnabled(), true);
  assertEquals(await later, true);
  noGrad(() => recording(true, () => assertEquals(isGradEnabled(), true)));
});

Deno.test("a function that throws takes its mode with it", () => {
  for (const run of [noGrad, withoutGrad]) {
    try {
      run(() => {
        throw new Error("on purpose");
      });
    } catch {
      assertEquals(isGradEnabled(), true);
    }
  }
});
