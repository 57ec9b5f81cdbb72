/**
 * A program at whose terminal Ctrl+C is typed: `ctrl_c_program.ts STATE FILE`. It writes what happens into FILE.
 */
import { InterruptedError, interruptSignal, manager, Tensor } from "../../mod.ts";

const [state, file] = Deno.args as [string, string];

function say(line: string): void {
  Deno.writeTextFileSync(file, `${line}\n`, { append: true });
}

/** Work that lasts for about so long. */
async function work(milliseconds: number): Promise<void> {
  const a = Tensor.rand([512, 512]), end = performance.now() + milliseconds;
  while (performance.now() < end) await a.matmul(a).sum().item();
}

async function goOn(): Promise<void> {
  for (;;) await work(50);
}

const { selector } = manager.default();
await Tensor.ones([2]).sum().item();
say(`ready on ${selector}`);
switch (state) {
  case "saving":
    interruptSignal.addEventListener("abort", () => say("aborted"));
    try {
      await goOn();
    } catch (error) {
      if (!(error instanceof InterruptedError)) throw error;
      say("saved");
      Deno.exit(130);
    }
    break;
  case "careless":
    await goOn();
    break;
  case "idle":
    await new Promise((resolve) => setTimeout(resolve, 60_000));
    break;
  default:
    throw new RangeError(`No such state: ${state}`);
}
