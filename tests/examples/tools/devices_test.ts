import { assert, assertEquals } from "@std/assert";
import { bytes, label } from "../../../examples/tools/devices/table.ts";
import { hasOpenCL } from "../../opencl.ts";
import { plain } from "../../plain.ts";
import { findCommand } from "../../suite/needs.ts";
import { fileURLToPath } from "node:url";

type JSONObject = { [name: string]: unknown };

const example = fileURLToPath(new URL("../../../examples/tools/devices.ts", import.meta.url));

async function output(command: string, args: string[]): Promise<string> {
  const { stdout } = await new Deno.Command(command, { args, env: plain, stderr: "null" }).output();
  return new TextDecoder().decode(stdout);
}

function devices(...args: string[]): Promise<string> {
  return output(Deno.execPath(), ["run", "--allow-ffi", "--allow-env", example, ...args]);
}

type Answer = { platforms: JSONObject[]; devices: { online: JSONObject[] }[] };

const clinfo = async (): Promise<Answer> => JSON.parse(await output("clinfo", ["--json"]));

/** Brings a value of clinfo's and one of ours to the same form. */
function canonical(value: unknown, ours: unknown): unknown {
  if (typeof value === "string" && Array.isArray(ours)) {
    return value.split(/[\s;]+/).filter(Boolean);
  }
  if (typeof value === "string") return value.trim();
  // NVIDIA ends its lists with a 0, which clinfo calls CL_NONE.
  if (Array.isArray(value)) return value.filter((each) => each !== "CL_NONE");
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).map(([key, each]) => [key.trim(), each] as const);
  const object = Object.fromEntries(entries);
  if (typeof ours === "string") return object.version;
  if (Array.isArray(ours)) return entries.map(([name, { version }]) => ({ name, version }));
  return object.raw;
}

/** clinfo keeps the last of several versions under one name, and the number of a bit field. */
function comparable(ours: unknown): unknown {
  if (Array.isArray(ours) && typeof ours[0] === "object") {
    return [...new Map(ours.map((each) => [each.name, each])).values()];
  }
  return (ours as JSONObject | null)?.raw ?? ours;
}

/** Constants of a vendor's own, which clinfo may know by name. */
function unlessUnnamed(ours: unknown, theirs: unknown): unknown {
  if (!Array.isArray(ours) || !Array.isArray(theirs)) return ours;
  return ours.map((each, k) => /^0x/.test(`${each}`) ? theirs[k] : each);
}

/**
 * Compares what clinfo says with ours; what clinfo itself says otherwise a moment later (clocks, memory that a
 * virtual machine is just given) is only counted.
 */
function compare(theirs: JSONObject, later: JSONObject, ours: JSONObject): number {
  const shared = Object.keys(ours).filter((name) => name in theirs);
  for (const name of shared) {
    const other = canonical(theirs[name], ours[name]);
    if (JSON.stringify(theirs[name]) !== JSON.stringify(later[name])) continue;
    assertEquals(unlessUnnamed(comparable(ours[name]), other), other, name);
  }
  return shared.length;
}

Deno.test("devices.ts --json agrees with clinfo on every property that both have", {
  ignore: !hasOpenCL || findCommand("clinfo") === null,
}, async () => {
  const theirs = await clinfo();
  const ours = JSON.parse(await devices("--json")).platforms as JSONObject[];
  const later = await clinfo();
  assertEquals(ours.length, theirs.platforms.length);
  ours.forEach((platform, i) => {
    assertEquals(compare(theirs.platforms[i]!, later.platforms[i]!, platform), 5);
    const found = platform.devices as JSONObject[];
    const online = theirs.devices[i]!.online, again = later.devices[i]!.online;
    assertEquals(found.length, online.length);
    found.forEach((device, k) => {
      const shared = compare(online[k]!, again[k]!, device);
      assert(shared >= 60, `${shared} properties are shared`);
    });
  });
});

Deno.test("devices.ts prints a table for people", { ignore: !hasOpenCL }, async () => {
  const text = await devices();
  for (const row of [/^ {2}Name {30,}\S/m, /^ {2}Global memory size +[\d.]+ [KMG]iB$/m]) {
    assert(row.test(text), text);
  }
  assert(!text.includes("CL_FP_"), "constants are shown as words");
});

Deno.test("labels and sizes read well", () => {
  assertEquals(label("MAX_COMPUTE_UNITS"), "Max compute units");
  assertEquals(label("IMAGE2D_MAX_WIDTH"), "2D image max width");
  assertEquals([0, 1, 1536, 2 ** 30, 80 * 2 ** 40].map(bytes), [
    "0 bytes",
    "1 bytes",
    "1.5 KiB",
    "1 GiB",
    "80 TiB",
  ]);
});
