/** A program on the built-in backend that signals are sent to: `builtin_program.ts CASE`. */
import { InterruptedError, interruptSignal, Tensor, withDevice } from "../../mod.ts";
import { SAVING_MS } from "./matrix.ts";
import { nap, stayInJavaScript } from "./waits.ts";

const LONG = 60_000;

async function saveSlowly(): Promise<never> {
  await nap(SAVING_MS);
  console.log("saved");
  Deno.exit(130);
}

const cases: Record<string, () => unknown> = {
  async idle() {
    console.log("ready");
    await nap(1000);
    console.log("done");
  },

  busy() {
    console.log("ready");
    stayInJavaScript(LONG);
  },

  async computing() {
    let x = Tensor.ones([64, 64]);
    console.log("ready");
    try {
      for (;;) {
        x = x.matmul(x).mul(1 / 64);
        await x.toHost();
      }
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw error;
      await saveSlowly();
    }
  },

  async listening() {
    interruptSignal.addEventListener("abort", saveSlowly);
    console.log("ready");
    await nap(LONG);
  },
};

await withDevice("cpu", async () => {
  await Tensor.ones([3]).add(1).toHost();
  await cases[Deno.args[0]!]!();
});
