/** A program of tensors that signals are sent to: `builtin_program.ts CASE [DEVICE]`. */
import { InterruptedError, interruptSignal, Tensor, withDevice } from "../../mod.ts";
import { SAVING_MS } from "./matrix.ts";
import { nap, stayInJavaScript } from "./waits.ts";

const LONG = 60_000;

async function saveSlowly(): Promise<never> {
  await nap(SAVING_MS);
  console.log("saved");
  Deno.exit(130);
}

/** A server whose requests never end: its runtime catches what its handlers throw. */
async function serve(onError?: (error: unknown) => Response): Promise<void> {
  const { addr } = Deno.serve(
    { port: 0, onListen() {}, ...(onError && { onError }) },
    async () => Response.json(await Tensor.rand([8, 8]).matmul(Tensor.rand([8, 8])).toArray()),
  );
  const ask = async () => {
    await (await fetch(`http://localhost:${(addr as Deno.NetAddr).port}`)).text();
  };
  await ask();
  console.log("ready");
  for (;;) await Promise.all([ask(), ask()]);
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

  serving: () => serve(),
  "serving-with-handler": () => serve((error) => Response.json(String(error), { status: 500 })),

  async "asking-for-the-name"() {
    console.log("ready");
    try {
      for (;;) await Tensor.ones([3]).add(1).toHost();
    } catch (error) {
      if ((error as Error).name !== "InterruptedError") throw error;
      await saveSlowly();
    }
  },

  async listening() {
    interruptSignal.addEventListener("abort", saveSlowly);
    console.log("ready");
    await nap(LONG);
  },
};

const [name, backend = "cpu"] = Deno.args;
await withDevice(backend, async () => {
  await Tensor.ones([3]).add(1).toHost();
  await cases[name!]!();
});
