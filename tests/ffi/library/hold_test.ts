import { assert, assertEquals } from "@std/assert";
import { runCollector as gc } from "../../../memory/core/garbage.ts";
import { Program, UserEvent } from "../../../ffi/mod.ts";
import { cl, replaceSymbols } from "../../../ffi/library/library.ts";
import type { OpenCLSymbols } from "../../../ffi/mod.ts";
import { context, testOpenCL } from "../fixture.ts";

const turn = () => new Promise((resolve) => setTimeout(resolve, 2));

/** Runs `fn` while a function is late, and tells whether what it was passed is still there then. */
async function heldWhileLate(
  name: "clWaitForEventsAsync" | "clBuildProgramAsync",
  argument: number,
  fn: () => Promise<unknown>,
): Promise<boolean> {
  let begun: WeakRef<object> | null = null, held = false;
  const { promise, resolve } = Promise.withResolvers<number>();
  const genuine = { ...cl };
  const late = (...args: never[]): Promise<number> => {
    begun = new WeakRef(args[argument]! as object);
    return promise;
  };
  const former = replaceSymbols({ ...genuine, [name]: late } as OpenCLSymbols);
  try {
    const running = fn();
    for (let i = 0; i < 3; i++) {
      await turn();
      gc();
    }
    held = begun!.deref() !== undefined;
    resolve(0);
    await running.catch(() => {});
  } finally {
    replaceSymbols(former);
  }
  return held;
}

testOpenCL("the list of events is held while another thread waits for it", async () => {
  using gate = new UserEvent(context);
  const held = await heldWhileLate("clWaitForEventsAsync", 1, async () => {
    const waiting = gate.wait();
    setTimeout(() => gate.complete());
    await waiting;
  });
  assert(held);
});

testOpenCL("the options are held while another thread builds", async () => {
  using program = new Program(context, "kernel void f(global int* x) { x[0] = 1; }");
  assertEquals(await heldWhileLate("clBuildProgramAsync", 3, () => program.buildAsync()), true);
});
