import {
  type DeviceHandle,
  manager,
  manualSeed,
  OpenCLUnavailableError,
  withDevice,
} from "@netcl/netcl";
import { device, type Flags, helpOf, parseFlags, reportUsage, seed, UsageError } from "./flags.ts";

/** What an example is, for its --help. */
export interface Example<F extends Flags> {
  /** What it does. */
  readonly about: string;
  /** Where it lies, as seen from the package. */
  readonly file: string;
  /** Its flags, beside --device, --seed and --help. */
  readonly flags: F;
}

/**
 * Runs an example on the device, and with the seed, of the command line. A mistake there is said, and
 * the program then ends with status 2.
 *
 * @param main Gets the text of each of the example's flags.
 */
export async function runExample<F extends Flags>(
  example: Example<F>,
  main: (values: { [name in keyof F | "seed"]: string }) => Promise<void>,
): Promise<void> {
  const flags = { ...example.flags, device, seed };
  await reportUsage(async () => {
    const values = parseFlags(Deno.args, flags);
    if (values === "help") return console.log(helpOf(example.about, example.file, flags));
    const handle = pickDevice(values.device);
    console.log(`device: ${manager.describeChoice(handle)}`);
    await withDevice(handle, () => {
      manualSeed(Number(values.seed));
      return main(values);
    });
  });
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
