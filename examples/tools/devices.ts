/**
 * Lists the OpenCL platforms and devices of this machine with everything that they say about
 * themselves.
 *
 *     deno run --allow-ffi --allow-env examples/tools/devices.ts [--json]
 */
import { OpenCLUnavailableError, type Platform, platforms } from "@netcl/netcl/ffi";
import { describeDevice, describePlatform } from "./devices/describe.ts";
import { tableOf } from "./devices/table.ts";
import { type Flags, helpOf, onOff, parseFlags, reportUsage } from "../flags.ts";

const about = "Lists the OpenCL platforms and devices of this machine.";
const flags = {
  json: { ...onOff, help: "everything, for programs, under the names of cl.h" },
} satisfies Flags;

function printTables(found: readonly Platform[]): void {
  for (const platform of found) {
    console.log(`${platform.name} (${platform.vendor}), ${platform.version}`);
    const devices = platform.devices();
    if (devices.length === 0) console.log("  no devices");
    for (const device of devices) {
      console.log(`\n  ${device.name}\n\n${tableOf(describeDevice(device))}\n`);
    }
  }
}

function toJSON(found: readonly Platform[]): string {
  const described = found.map((platform) => ({
    ...describePlatform(platform),
    devices: platform.devices().map(describeDevice),
  }));
  return JSON.stringify({ platforms: described }, null, 2);
}

await reportUsage(() => {
  const values = parseFlags(Deno.args, flags);
  if (values === "help") return console.log(helpOf(about, "examples/tools/devices.ts", flags));
  try {
    const found = platforms();
    if (values.json === "true") console.log(toJSON(found));
    else printTables(found);
  } catch (error) {
    if (!(error instanceof OpenCLUnavailableError)) throw error;
    console.error(error.message);
    Deno.exitCode = 1;
  }
});
