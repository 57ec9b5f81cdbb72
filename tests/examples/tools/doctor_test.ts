import { assert, assertEquals } from "@std/assert";
import { checkDevices } from "../../../examples/tools/doctor/checks.ts";
import { format } from "../../../examples/tools/doctor/finding.ts";
import { type Platform, platforms } from "../../../ffi/mod.ts";
import { hasOpenCL } from "../../opencl.ts";
import { runDeno } from "../../run_deno.ts";
import { fileURLToPath } from "node:url";

const example = fileURLToPath(new URL("../../../examples/tools/doctor.ts", import.meta.url));

async function doctor(
  flags: string[],
  env: Record<string, string> = {},
): Promise<[number, string]> {
  const { code, out } = await runDeno(["run", "--no-prompt", ...flags, example], { env });
  return [code, out];
}

Deno.test("the doctor looks at everything, and each line says good or what to do", {
  ignore: !hasOpenCL,
}, async () => {
  const [, text] = await doctor(["-A"]);
  const subjects = ["OpenCL library", "platform", "device", "compiler", "linker", "signals"];
  for (const subject of subjects) assert(new RegExp(`^good  ${subject} `, "m").test(text), text);
  assert(/^good {2}self-test +built in \d+ ms, 1048576 elements in [\d.]+ ms$/m.test(text), text);
  for (const line of text.trimEnd().split("\n")) assert(/^(good|todo| {4}) {2}/.test(line), line);
});

Deno.test("the doctor says which permissions are missing, and does not fail for it", async () => {
  const [code, text] = await doctor([]);
  assertEquals(code, 1);
  assert(text.includes("run with --allow-ffi"), text);
  assert(text.includes("run with --allow-env"), text);
});

Deno.test("the doctor finds misspelt variables, and a cache that cannot be written", async () => {
  const folder = `${await Deno.makeTempDir()}/file`;
  await Deno.writeTextFile(folder, "");
  const [code, text] = await doctor(["-A"], { NETCL_DEVISE: "gpu", NETCL_CACHE_DIR: folder });
  await Deno.remove(new URL(".", `file://${folder}`), { recursive: true });
  assertEquals(code, 1);
  assert(text.includes("netcl knows no NETCL_DEVISE (did you mean NETCL_DEVICE?)"), text);
  assert(/^todo {2}kernel cache/m.test(text), text);
});

Deno.test("the doctor finds a cache folder that others may write to", {
  ignore: Deno.build.os === "windows",
}, async () => {
  const folder = await Deno.makeTempDir();
  await Deno.chmod(folder, 0o777);
  const [code, text] = await doctor(["-A"], { NETCL_CACHE_DIR: folder });
  await Deno.remove(folder, { recursive: true });
  assertEquals(code, 1);
  assert(text.includes("others may write to it") && text.includes("run chmod 700"), text);
});

Deno.test("the doctor finds a variable that hides the drivers, and says why it does", async () => {
  const folder = await Deno.makeTempDir();
  await Deno.mkdir(`${folder}/empty`);
  await Deno.mkdir(`${folder}/broken`);
  await Deno.writeTextFile(`${folder}/broken/x.icd`, `${folder}/none.so\n`);
  const wrong: Record<string, string> = {
    [`${folder}/none/`]: "there is no such folder",
    [`${folder}/empty`]: "the folder holds no .icd file",
    [`${folder}/broken`]: `names ${folder}/none.so, which is not there`,
    [`${folder}/none.icd`]: "there is no file",
  };
  for (const [value, problem] of Object.entries(wrong)) {
    const [code, text] = await doctor(["-A"], { OCL_ICD_VENDORS: value });
    const line = text.split("\n").find((each) => each.includes(`OCL_ICD_VENDORS=${value}: `)) ?? "";
    assertEquals([code, line.startsWith("todo  environment")], [1, true], text);
    assert(line.includes(problem), line);
    assert(text.includes("unset OCL_ICD_VENDORS"), text);
  }
  await Deno.remove(folder, { recursive: true });
});

Deno.test("findings are aligned, and remedies stand below", () => {
  const findings = [
    { subject: "a", found: "fine" },
    { subject: "bcd", found: "bad", remedy: "do x\nor y" },
  ];
  assertEquals(
    format(findings),
    ["good  a    fine", "todo  bcd  bad", "           do x", "           or y"].join("\n"),
  );
});

Deno.test("a driver without a device is a fault only where no other has one", async () => {
  const empty = { name: "Clover", devices: () => [] } as unknown as Platform;
  const [alone] = await checkDevices([empty]);
  assertEquals(alone!.remedy !== undefined, true);
  if (!hasOpenCL) return;
  const found = await checkDevices([empty, platforms().find((p) => p.devices().length > 0)!]);
  assertEquals(found[0], { subject: "device", found: "Clover has none" });
});
