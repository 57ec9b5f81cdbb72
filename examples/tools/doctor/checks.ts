/** Checks of the doctor. */
import {
  type Device,
  environmentVariables,
  ignoredSignals,
  libraryPath,
  type Platform,
  platforms,
  readEnvironment,
} from "@netcl/netcl/ffi";
import { checkDriverVariables } from "./driver_variables.ts";
import type { Finding } from "./finding.ts";
import { selfTest } from "./self_test.ts";
import { didYouMean } from "../../../ffi/host/wording.ts";

/** The first version that netcl is tested with. */
const minimumDeno = [2, 9];

export function checkDeno(): Finding {
  const [major = 0, minor = 0] = Deno.version.deno.split(".").map(Number);
  const old = major < minimumDeno[0]! || (major === minimumDeno[0] && minor < minimumDeno[1]!);
  const found = `${Deno.version.deno} on ${Deno.build.os} ${Deno.build.arch}`;
  const subject = "Deno";
  return old ? { subject, found, remedy: "run: deno upgrade" } : { subject, found };
}

export function checkPermissions(): Finding[] {
  return [
    permission({ name: "ffi" }, "--allow-ffi", "OpenCL cannot be used without it"),
    permission({ name: "env" }, "--allow-env", "NETCL_* variables are not read without it"),
  ];
}

function permission(descriptor: Deno.PermissionDescriptor, flag: string, why: string): Finding {
  const { state } = Deno.permissions.querySync(descriptor);
  const subject = `permission ${descriptor.name}`;
  if (state === "granted") return { subject, found: "granted" };
  return { subject, found: `${state}: ${why}`, remedy: `run with ${flag}` };
}

/** The library and its drivers; no platforms where there are none. */
export function checkLibrary(): { findings: Finding[]; found: Platform[] } {
  try {
    const found = platforms();
    const library = { subject: "OpenCL library", found: libraryPath ?? "none" };
    return { findings: [library, ...found.map(describe)], found };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const [what = "", ...rest] = error.message.split("\n");
    const remedy = rest.length > 0 ? rest.join("\n") : "the built-in CPU backend works without";
    return { findings: [{ subject: "OpenCL library", found: what, remedy }], found: [] };
  }
}

function describe(platform: Platform): Finding {
  return { subject: "platform", found: `${platform.name}, ${platform.version}` };
}

/** Devices, their compilers, and whether they compute. */
export async function checkDevices(found: readonly Platform[]): Promise<Finding[]> {
  const findings: Finding[] = [];
  const isAlone = found.every((platform) => platform.devices().length === 0);
  for (const platform of found) {
    const devices = platform.devices();
    if (devices.length === 0) findings.push(describeEmpty(platform, isAlone));
    for (const device of devices) {
      findings.push(describeDevice(device), ...checkTools(device), await selfTest(device));
    }
  }
  return findings;
}

/** Drivers of hardware that is not there are usual beside one that works. */
function describeEmpty({ name }: Platform, isAlone: boolean): Finding {
  const finding = { subject: "device", found: `${name} has none` };
  const remedy = "check the driver's installation; PoCL needs a folder that this user may write " +
    "(HOME, or POCL_CACHE_DIR), and a POCL_DEVICES that is right, if it is set";
  return isAlone ? { ...finding, remedy } : finding;
}

function describeDevice(device: Device): Finding {
  const memory = (device.globalMemSize / 2 ** 30).toFixed(1);
  const found = `${device.name}, ${device.type}, ${device.maxComputeUnits} units, ${memory} GiB`;
  const subject = "device";
  if (device.query("AVAILABLE")) return { subject, found };
  return { subject, found, remedy: "it is not available: another program may hold it" };
}

function checkTools(device: Device): Finding[] {
  const tools = [
    ["compiler", "COMPILER_AVAILABLE"],
    ["linker", "LINKER_AVAILABLE"],
  ] as const;
  return tools.map(([subject, property]) => {
    if (device.query(property)) return { subject, found: `of ${device.name}` };
    const remedy = "install the driver's full package: netcl compiles its kernels at run time";
    return { subject, found: `${device.name} has none`, remedy };
  });
}

/** After the library was opened: before that nothing is known. */
export function checkSignals(): Finding {
  const ignored = ignoredSignals();
  const subject = "signals";
  if (ignored === null) return { subject, found: "untouched: no OpenCL library was opened" };
  const found = ignored.length > 0
    ? `ready; ignored since the start, as by nohup: ${ignored.join(", ")}`
    : "ready: Ctrl+C reaches listeners in spite of the driver's own handlers";
  return { subject, found };
}

/** The variables that are set, netcl's and those that drivers and their loader obey. */
export function checkEnvironment(): Finding[] {
  const own = Object.keys(environmentVariables) as (keyof typeof environmentVariables)[];
  const wrong = checkDriverVariables();
  const set = own.flatMap((name) => {
    const value = readEnvironment(name);
    return value === undefined ? [] : [`${name}=${value}`];
  });
  if (Deno.permissions.querySync({ name: "env" }).state === "granted") {
    for (
      const name of [
        "OCL_ICD_VENDORS",
        "OPENCL_VENDOR_PATH",
        "OPENCL_LAYERS",
        "POCL_DEVICES",
        "POCL_AFFINITY",
      ]
    ) {
      const value = Deno.env.get(name);
      const isWrong = wrong.some(({ found }) => found.startsWith(`${name}=`));
      if (value !== undefined && !isWrong) set.push(`${name}=${value}`);
    }
  }
  const found = set.length > 0 ? set.join("\n") : "no variable is set";
  const remedy = misspelt().join("\n");
  if (remedy !== "") return [{ subject: "environment", found, remedy }, ...wrong];
  return set.length === 0 && wrong.length > 0
    ? wrong
    : [{ subject: "environment", found }, ...wrong];
}

function misspelt(): string[] {
  const known = Object.keys(environmentVariables);
  return unknownVariables().map((name) =>
    `netcl knows no ${name}${didYouMean(name, known, String)}: check the spelling`
  );
}

function unknownVariables(): string[] {
  if (Deno.permissions.querySync({ name: "env" }).state !== "granted") return [];
  return Object.keys(Deno.env.toObject())
    .filter((name) => name.startsWith("NETCL_") && !(name in environmentVariables));
}
