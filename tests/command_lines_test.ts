// Suite: no device; the device is named, or the mistake comes before it.
/** A mistake on a command line, or in the environment, is one clear line and status 2. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { fileURLToPath } from "node:url";
import { runDeno } from "./run_deno.ts";

const root = fileURLToPath(new URL("../", import.meta.url));

async function run(
  program: string,
  args: readonly string[],
  env: Record<string, string> = {},
): Promise<[code: number, out: string, err: string]> {
  const { code, out, err } = await runDeno(["run", "-A", "--no-check", program, ...args], {
    cwd: root,
    env,
  });
  return [code, out, err];
}

/** Every program of the package that reads a command line of its own. */
async function programs(): Promise<string[]> {
  const found: string[] = [];
  for (
    const folder of ["examples", "examples/models", "examples/tools", "bench", "tests/oclgrind"]
  ) {
    for await (const { name, isFile } of Deno.readDir(`${root}${folder}`)) {
      if (!isFile || !name.endsWith(".ts")) continue;
      const text = await Deno.readTextFile(`${root}${folder}/${name}`);
      // What is only imported, and what other programs start, has no command line for people.
      const isProgram = /^if \(import\.meta\.main\)|^await \w+\(|^const chosen = filesOrExit/m.test(
        text,
      );
      if (isProgram && !internal.includes(`${folder}/${name}`)) found.push(`${folder}/${name}`);
    }
  }
  return found.sort();
}

/** Started by check.ts, with the name of a case. */
const internal = ["tests/oclgrind/kernels.ts", "tests/oclgrind/tensors.ts"];

const all = await programs();

Deno.test("the programs with a command line are found", () => {
  for (
    const name of ["examples/train.ts", "examples/tools/doctor.ts", "bench/run.ts", "bench/tune.ts"]
  ) {
    assert(all.includes(name), `${name} is not among ${all}`);
  }
});

for (const program of all) {
  Deno.test(`an unknown flag of ${program} is one line that lists the right ones`, async () => {
    const [code, out, err] = await run(program, ["--definitely-no-flag"]);
    assertEquals([code, out], [2, ""]);
    assertMatch(err, /^Unknown flag --definitely-no-flag: the flags are (--[\w-]+(, )?)+\n$/);
  });
}

Deno.test("a flag that is nearly right is told", async () => {
  const [, , json] = await run("examples/tools/devices.ts", ["--jsn"]);
  assertMatch(json, /^Unknown flag --jsn \(did you mean --json\?\)/);
  const [, , epochs] = await run("examples/train.ts", ["--epohcs", "2"]);
  assertMatch(epochs, /\(did you mean --epochs\?\)/);
  const [, , seconds] = await run("bench/tune.ts", ["--secnds", "2"]);
  assertMatch(seconds, /\(did you mean --seconds\?\)/);
});

Deno.test("a folder for results that cannot be is one line, before the work begins", async () => {
  const file = await Deno.makeTempFile();
  try {
    for (const program of ["examples/train.ts", "examples/vae.ts"]) {
      const [code, out, err] = await run(program, ["--device", "cpu", "--out", file]);
      assertEquals(code, 2);
      assertEquals(out.split("\n").length, 2, out); // the device, and no more
      assertEquals(err, `--out cannot be the folder "${file}" (file exists): name another\n`);
    }
  } finally {
    await Deno.remove(file);
  }
});

Deno.test("help is help, and no mistake", async () => {
  for (
    const program of [
      "examples/tools/devices.ts",
      "examples/tools/doctor.ts",
      "bench/memory_bench.ts",
    ]
  ) {
    const [code, out, err] = await run(program, ["--help"]);
    assertEquals([code, err], [0, ""]);
    assert(out.includes(program), out);
  }
});

const wrong = [
  ["NETCL_MEMORY_LIMIT", "abc"],
  ["NETCL_CPU", "slow"],
  ["NETCL_SIGNALS", "maybe"],
  ["NETCL_EAGER", "2"],
  ["NETCL_SIGINT_GRACE_MS", "soon"],
] as const;

for (const [name, value] of wrong) {
  Deno.test(`a wrong ${name} ends an example with one line`, async () => {
    const args = ["--device", "cpu", "--points", "60", "--steps", "1"];
    const [code, , err] = await run("examples/clusters.ts", args, { [name]: value });
    assertEquals(code, 2);
    assertMatch(err, new RegExp(`^${name} is "${value}": .*\n$`));
  });
}
