import {
  type DeviceHandle,
  InterruptedError,
  manager,
  manualSeed,
  OpenCLUnavailableError,
  withDevice,
} from "@netcl/netcl";
import { common, type Flags, helpOf, parseFlags, reportUsage, UsageError } from "./flags.ts";
import { showBuilds } from "./terminal/builds.ts";
import { screen } from "./terminal/live_screen.ts";
import { askFor } from "./terminal/permissions.ts";

/** The flags of an example in words: a text for each. */
export type Values<F extends Flags> = { readonly [name in keyof F | "seed"]: string };

/** The description of an example, for its --help. */
export interface Example<F extends Flags> {
  /** Its purpose. */
  readonly about: string;
  /** Its path in the package. */
  readonly file: string;
  /** Its flags, beside --device, --seed and --help. */
  readonly flags: F;
  /** Files that it reads and writes: asked for before the work begins. */
  readonly needs?: (values: Values<F>) => Deno.PermissionDescriptor[];
}

/**
 * Runs an example on the device, and with the seed, of the command line. A mistake there is said, and
 * the program then ends with status 2; after Ctrl+C it ends with status 130.
 *
 * @param main Gets the text of each of the example's flags, and what prints a line.
 */
export async function runExample<F extends Flags>(
  example: Example<F>,
  main: (values: Values<F>, print: (line: string) => void) => Promise<void>,
): Promise<void> {
  const flags = { ...example.flags, ...common };
  await reportUsage(async () => {
    const values = parseFlags(Deno.args, flags);
    if (values === "help") return console.log(helpOf(example.about, example.file, flags));
    if (example.needs) await askFor(...example.needs(values));
    const handle = pickDevice(values.device);
    screen.print(`device: ${manager.describeChoice(handle)}`);
    using _builds = showBuilds();
    await withDevice(handle, () => {
      manualSeed(Number(values.seed));
      return untilInterrupted(() => main(values, (line) => screen.print(line)));
    });
  });
}

/** Runs until the end or Ctrl+C, which is said; what has been shown stays. */
async function untilInterrupted(main: () => Promise<void>): Promise<void> {
  try {
    await main();
  } catch (error) {
    if (!(error instanceof InterruptedError)) throw error;
    sayInterrupted("");
  } finally {
    screen.keep();
  }
}

/** Says that Ctrl+C has ended the work, and has the program end with status 130. */
export function sayInterrupted(then: string): void {
  screen.keep();
  screen.print(`interrupted${then}`);
  Deno.exitCode = 130;
}

/**
 * The device that the user asked for.
 *
 * @throws UsageError when this machine does not have it.
 */
export function pickDevice(selector: string): DeviceHandle {
  try {
    return manager.default(selector);
  } catch (error) {
    const isWish = error instanceof OpenCLUnavailableError || error instanceof RangeError;
    throw isWish ? new UsageError(error.message) : error;
  }
}
