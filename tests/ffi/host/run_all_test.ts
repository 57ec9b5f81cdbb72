import { assertEquals, assertThrows } from "@std/assert";
import { runAll } from "../../../ffi/host/run_all.ts";

Deno.test("runAll runs what comes behind a failure, and throws the first one", () => {
  const ran: string[] = [];
  const step = (name: string, fails: boolean) => () => {
    ran.push(name);
    if (fails) throw new RangeError(name);
  };
  const steps = [step("a", false), step("b", true), step("c", true), step("d", false)];
  assertThrows(() => runAll(steps), RangeError, "b");
  assertEquals(ran, ["a", "b", "c", "d"]);
  runAll([]);
});
