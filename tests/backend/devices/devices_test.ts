import {
  assert,
  assertEquals,
  assertInstanceOf,
  assertMatch,
  assertStrictEquals,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { DeviceManager, manager } from "../../../backend/devices/devices.ts";
import { OpenCLError, OpenCLUnavailableError, platforms } from "../../../ffi/mod.ts";
import { withFaults } from "../../../ffi/library/faults.ts";
import { DeviceInfo, DeviceType, Status } from "../../../ffi/library/constants.ts";
import { cl, replaceSymbols } from "../../../ffi/library/library.ts";
import type { OpenCLSymbols } from "../../../ffi/mod.ts";
import { hasPoCL, withTwoDevices } from "../../suite/only_pocl.ts";
import { hasOpenCL, testOpenCL } from "../../opencl.ts";
import { runDeno } from "../../run_deno.ts";
import { setVariables } from "../../variables.ts";

// The first queue starts the signal handling, which opens libc: outside of the tests, which would
// find it left open.
if (hasOpenCL) manager.default("cl").queue!.flush();

const root = new URL("../../../", import.meta.url);

/** The environment of a machine whose user wishes no device. */
const nobodyChose = { NETCL_DEVICE: "" };

/** Runs a snippet with `manager` in a process of its own, and returns what it prints. */
async function inProcess(
  code: string,
  { env = {}, flags = ["-A"] }: { env?: Record<string, string>; flags?: string[] } = {},
): Promise<string> {
  const script = `import { manager } from "${new URL(
    "backend/devices/devices.ts",
    root,
  )}";\n${code}`;
  const url = `data:text/typescript,${encodeURIComponent(script)}`;
  const args = ["run", "--no-check", "--quiet", "--no-prompt", ...flags, url];
  const { out, err } = await runDeno(args, { env: { ...nobodyChose, ...env } });
  return out + err;
}

const readSources = `--allow-import`;

Deno.test("the built-in device is always there, with the fields of a handle", () => {
  const cpu = manager.default("cpu");
  assertEquals(
    [cpu.platformName, cpu.backend, cpu.deviceType, cpu.context, cpu.queue, cpu.fp16],
    ["netcl", "cpu", "cpu", null, null, false],
  );
  assertStringIncludes(cpu.deviceName, "built-in CPU backend");
  assertStrictEquals(manager.default("cpu"), cpu);
  assert(manager.list().includes(cpu));
});

Deno.test("a string that selects nothing is an error that lists the right ones", () => {
  for (const selector of ["", "opencl", "cl:0", "cl:0:", "cl:a:b", "cpu:0", "CL"]) {
    const error = assertThrows(() => manager.default(selector), RangeError);
    assertStringIncludes(error.message, `Cannot select device "${selector}": write "auto"`);
  }
});

testOpenCL("each device of OpenCL has one handle, with its names and its position", () => {
  const handles = manager.list().filter((handle) => handle.backend === "cl");
  assert(handles.length > 0);
  for (const handle of handles) {
    assertMatch(handle.selector, /^cl:\d+:\d+$/);
    assertStrictEquals(manager.default(handle.selector), handle);
    assertEquals(handle.deviceName, handle.clDevice!.name);
    assertEquals(handle.platformName, handle.clDevice!.platform.name);
    assertEquals(handle.deviceType, handle.clDevice!.type);
    assertEquals(handle.fp16, handle.clDevice!.extensions.includes("cl_khr_fp16"));
  }
});

testOpenCL("context and queue are made on the first touch, once, and again after close()", () => {
  const [handle] = new DeviceManager().list();
  assertEquals(handle!.isOpen, false);
  const { queue } = handle!;
  assertStrictEquals(queue!.context, handle!.context);
  assertStrictEquals(handle!.queue, queue);
  assertEquals(handle!.isOpen, true);
  handle!.close();
  assertEquals([handle!.isOpen, queue!.released], [false, true]);
  assertEquals(handle!.queue!.released, false);
  handle!.close();
});

testOpenCL("a position where no device is names those that are there", () => {
  const error = assertThrows(() => manager.default("cl:99:0"), RangeError);
  assertStringIncludes(error.message, 'Cannot select device "cl:99:0"');
  assertStringIncludes(error.message, manager.default("cl").deviceName);
});

testOpenCL("resolve takes a selector or a handle", () => {
  const cl = manager.default("cl");
  assertStrictEquals(manager.resolve("cl"), cl);
  assertStrictEquals(manager.resolve(cl), cl);
});

/** The choice of `manager` if the present device were of another type. */
function choiceOf(type: bigint, selector: string): string {
  const fault = { call: "clGetDeviceInfo", parameter: DeviceInfo.TYPE, value: type } as const;
  return withFaults([fault], () => new DeviceManager().default(selector).deviceType);
}

testOpenCL("gpu takes GPUs only, and auto takes what there is", () => {
  using _ = setVariables(nobodyChose);
  assertEquals(choiceOf(DeviceType.GPU, "gpu"), "gpu");
  assertEquals(choiceOf(DeviceType.GPU, "auto"), "gpu");
  assertEquals(choiceOf(DeviceType.ACCELERATOR, "auto"), "accel");
  const error = assertThrows(() => choiceOf(DeviceType.CPU, "gpu"), OpenCLUnavailableError);
  assertStringIncludes(error.message, "there is only");
});

testOpenCL("auto goes on to the built-in backend where a device cannot be opened", () => {
  using _ = setVariables(nobodyChose);
  const lost = { call: "clCreateContext", status: Status.CL_DEVICE_NOT_AVAILABLE } as const;
  withFaults([lost], () => {
    const local = new DeviceManager();
    const chosen = local.default("auto");
    assertEquals(chosen.backend, "cpu");
    assertMatch(local.describeChoice(chosen), /cannot be opened: .*CL_DEVICE_NOT_AVAILABLE/);
  });
});

testOpenCL("a device that is lost gives one clear error, and the built-in backend works", () => {
  const local = new DeviceManager();
  const lost = { call: "clCreateContext", status: Status.CL_DEVICE_NOT_AVAILABLE } as const;
  withFaults([lost], () => {
    const error = assertThrows(() => local.default("cl").queue, OpenCLError);
    assertInstanceOf(error, OpenCLError);
    assertEquals(error.codeName, "CL_DEVICE_NOT_AVAILABLE");
    assertStringIncludes(error.message, "choose another device");
    assertEquals(local.default("cpu").backend, "cpu");
  });
});

Deno.test("the choice is described in one line, with its reason", async () => {
  const cpu = manager.default("cpu");
  assertStringIncludes(manager.describeChoice(cpu), 'asked for as "cpu"');
  if (!hasOpenCL) return;
  const line = await inProcess("manager.default(); console.log(manager.describeChoice());");
  assertMatch(line.trim(), /^OpenCL \w+ .+ \(cl:\d+:\d+\): the first found$/);
  assert(line.length < 120, `${line} is short enough for a terminal`);
});

const describeAuto = 'manager.default("auto"); console.log(manager.describeChoice());';

testOpenCL("NETCL_DEVICE decides what auto is, and nothing else", async () => {
  const env = { NETCL_DEVICE: "cpu" };
  assertMatch(await inProcess(describeAuto, { env }), /built-in .*: chosen by NETCL_DEVICE=cpu/);
  assertEquals(await inProcess('console.log(manager.default("cl").backend)', { env }), "cl\n");
  const wrong = await inProcess(describeAuto, { env: { NETCL_DEVICE: "cuda" } });
  assertStringIncludes(wrong, 'NETCL_DEVICE=cuda: Cannot select device "cuda": write "auto"');
});

Deno.test("a variable that may not be read is as good as unset", async () => {
  const code =
    'try { manager.default(); console.log("chosen"); } catch (e) { console.log(e.name); }';
  const env = { NETCL_DEVICE: "nothing" };
  assertEquals(await inProcess(code, { env, flags: ["--allow-ffi", readSources] }), "chosen\n");
  assertEquals(await inProcess(code, { env }), "RangeError\n");
});

const withoutOpenCL: Record<string, { env?: Record<string, string>; flags?: string[] }> = {
  "the library is missing": { env: { NETCL_OPENCL_LIBRARY: "/nowhere/libOpenCL.so" } },
  "the permission is missing": { flags: [readSources] },
};
const noPlatform = { env: { OCL_ICD_VENDORS: "/nowhere" } };
// Only some loaders know the variable.
const countOpenCL = 'console.log(manager.list().filter(({ backend }) => backend === "cl").length);';
if (await inProcess(countOpenCL, noPlatform) === "0\n") {
  withoutOpenCL["there is no platform"] = noPlatform;
}
if (hasOpenCL) {
  withoutOpenCL["there is no device"] = { env: { POCL_DEVICES: "nosuch" } };
}

for (const [why, circumstances] of Object.entries(withoutOpenCL)) {
  const isOther = why === "there is no device" && hasOpenCL &&
    manager.default("cl").platformName !== "Portable Computing Language";
  Deno.test(`where ${why}, auto is the built-in backend and "cl" says what to install`, {
    ignore: isOther,
  }, async () => {
    const line = await inProcess(describeAuto, circumstances);
    assertMatch(line, /^built-in CPU backend \(\d+ cores?, [\w ,.]+\): no OpenCL device \(.+\)\n$/);
    assert(line.length < 240 && !line.includes("What to do"), `${line} is a line, no paragraph`);
    const refused = await inProcess(
      `for (const selector of ["cl", "gpu"]) {
          try { manager.default(selector); } catch (e) { console.log(e.name, e.message); }
        }
        ${countOpenCL}`,
      circumstances,
    );
    assertMatch(refused, /OpenCLUnavailableError Cannot select device "cl": .*pocl-opencl-icd/s);
    assertMatch(refused, /OpenCLUnavailableError Cannot select device "gpu": .*built-in backend/s);
    assertMatch(refused, /\n0\n$/);
  });
}

Deno.test(
  "two devices of a platform are two handles",
  { ignore: !hasPoCL },
  () =>
    withTwoDevices(async (env) => {
      const out = await inProcess(
        "const [a, b] = manager.list(); console.log(a.selector, b.selector, a.queue !== b.queue);",
        { env },
      );
      assertEquals(out, "cl:0:0 cl:0:1 true\n");
    }),
);

Deno.test("importing the devices opens nothing; the first device does", {
  ignore: Deno.build.os !== "linux" || !hasOpenCL,
}, async () => {
  const out = await inProcess(`
      const isOpen = () => Deno.readTextFileSync("/proc/self/maps").includes("libOpenCL");
      const before = isOpen();
      manager.default("cpu");
      console.log(before, isOpen());
      manager.default("cl");
      console.log(isOpen());`);
  assertEquals(out, "false false\ntrue\n");
});

testOpenCL("a driver without a device takes no number from those that have some", () => {
  const empty = 0x1234n, found: bigint[] = [empty, ...platforms().map((p) => p.unsafeHandle)];
  const former = cl;
  // The loader may list the empty one first; nothing else of it may be asked for.
  replaceSymbols({
    ...former,
    clGetPlatformIDs: (count: number, ids: BigUint64Array | null, out: Uint32Array | null) => {
      ids?.set(found.slice(0, count));
      if (out) out[0] = found.length;
      return 0;
    },
    clGetDeviceIDs: (platform: bigint, ...args: unknown[]) =>
      platform === empty
        ? Status.CL_DEVICE_NOT_FOUND
        : (former.clGetDeviceIDs as (...all: unknown[]) => number)(platform, ...args),
  } as unknown as OpenCLSymbols);
  try {
    const selectors = new DeviceManager().list().map(({ selector }) => selector);
    assertEquals(selectors, manager.list().map(({ selector }) => selector));
    assertEquals(new DeviceManager().default("cl:0:0").selector, "cl:0:0");
  } finally {
    replaceSymbols(former);
  }
});
