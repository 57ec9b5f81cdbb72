// Suite: waits; grace windows end at certain times.
/** Ends of ranks, and the words of one that cannot begin. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { hasOpenCL } from "../opencl.ts";
import { assertGood, command, type Ended, hasMpirun, mpirun } from "./mpirun.ts";
import { runDeno } from "../run_deno.ts";

/** Longer than it takes where every core has other work. */
const MOST_SECONDS = 60;

function assertEndedEarly({ code, seconds, text }: Ended): void {
  assert(code !== 0, text);
  assert(seconds < MOST_SECONDS, `${seconds} s: ${text}`);
}

function testRanks(name: string, fn: () => Promise<void>): void {
  Deno.test(name, { ignore: !hasMpirun }, fn);
}

const rows = [
  ["throw", "netcl: rank 1 of 2 ends with an uncaught error: all ranks end", "cannot go on"],
  ["exit", "netcl: rank 1 of 2 ends with status 7: all ranks end", ""],
  ["interrupt", "rank 1 saves", "netcl: rank 1 of 2 ends with status 130: all ranks end"],
] as const;

for (const [how, line, other] of rows) {
  testRanks(`a rank that ends by "${how}" ends the others, with one clear line`, async () => {
    const ended = await mpirun(2, "endings_program.ts", [how]);
    assertEndedEarly(ended);
    assertEquals(ended.text.split(line).length, 2, ended.text);
    assertStringIncludes(ended.text, other);
  });
}

testRanks("a rank that is killed in the middle ends the others", async () => {
  const ended = await mpirun(4, "endings_program.ts", ["kill"]);
  assertEndedEarly(ended);
  assertStringIncludes(ended.text, "exited on signal 9");
});

/** Ranks of an OpenCL device end while it waits for gradients of the others. */
function testLeft(name: string, how: string, check: (ended: Ended) => void): void {
  Deno.test(name, { ignore: !hasMpirun || !hasOpenCL }, async () => {
    return check(await mpirun(2, "left_program.ts", [how]));
  });
}

testLeft("a late rank's gradients are waited for by every kind of read", "read", (ended) => {
  assertGood(ended, 2);
});
for (const how of ["end", "leave"]) {
  testLeft(
    `ranks that "${how}" behind a reduction end when all have what was sent`,
    how,
    (ended) => {
      assertEquals(ended.code, 0, ended.text);
      assert(ended.seconds < MOST_SECONDS, `${ended.seconds} s`);
    },
  );
}
for (const how of ["throw", "kill", "interrupt"]) {
  testLeft(
    `a rank that ends by "${how}" behind a reduction ends the others`,
    how,
    assertEndedEarly,
  );
}

testRanks("Ctrl+C ends mpirun and every rank", async () => {
  const child = command(2, "endings_program.ts", ["wait"]).spawn();
  const text = await readUntil(child.stdout, "is ready");
  child.kill("SIGINT");
  const start = performance.now(), { code } = await child.status;
  await child.stdout.cancel();
  await child.stderr.cancel();
  assert(code !== 0);
  assert(performance.now() - start < MOST_SECONDS * 1000);
  const pid = Number(/process (\d+)/.exec(text)![1]);
  assert(await isGone(pid), `process ${pid} goes on`);
});

async function readUntil(stream: ReadableStream<Uint8Array>, end: string): Promise<string> {
  const reader = stream.getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    text += new TextDecoder().decode(value);
    if (!done && !text.includes(end)) continue;
    reader.releaseLock();
    return text;
  }
}

async function isGone(pid: number): Promise<boolean> {
  for (let tries = 0; tries < 100; tries++) {
    try {
      const stat = await Deno.readTextFile(`/proc/${pid}/stat`);
      if (stat.includes(") Z ")) return true;
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return true;
      throw error;
    }
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  return false;
}

const init = `
  import { distributed } from "${new URL("../../mod.ts", import.meta.url)}";
  try { distributed.init(); } catch (error) { console.log(error.name + ": " + error.message); }
`;

async function begin(env: Record<string, string>, permissions = ["-A"]): Promise<string> {
  const file = await Deno.makeTempFile({ suffix: ".ts" });
  await Deno.writeTextFile(file, init);
  const args = ["run", "--no-check", "--no-prompt", ...permissions, file];
  const { out, err } = await runDeno(args, { env });
  await Deno.remove(file);
  return out + err;
}

Deno.test("without libmpi an error says what was tried, what to install and which variable to set", async () => {
  const env = { OMPI_COMM_WORLD_SIZE: "2", NETCL_MPI_LIBRARY: "/nowhere/libmpi.so.9" };
  const text = await begin(env);
  assertStringIncludes(
    text,
    "MPIUnavailableError: Cannot find the MPI library of Open MPI's mpirun",
  );
  for (const part of ["/nowhere/libmpi.so.9", "openmpi-bin", "NETCL_MPI_LIBRARY"]) {
    assertStringIncludes(text, part);
  }
});

Deno.test("a library that is no MPI is told, and nothing is called in it", async () => {
  const text = await begin({ PMI_SIZE: "2", NETCL_MPI_LIBRARY: "libc.so.6" });
  assertStringIncludes(text, "MPIUnavailableError");
});

Deno.test("where the environment may not be read nobody trains alone by mistake", async () => {
  const text = await begin({ OMPI_COMM_WORLD_SIZE: "2" }, ["--allow-read", "--allow-ffi"]);
  assertStringIncludes(text, "MPIUnavailableError");
  assertStringIncludes(text, "--allow-env");
});

Deno.test("a library that did not come with mpirun is told", { ignore: !hasMpirun }, async () => {
  const env = { OMPI_COMM_WORLD_SIZE: "3", OMPI_ALLOW_RUN_AS_ROOT: "1" };
  assertStringIncludes(await begin(env), "sees 1; set NETCL_MPI_LIBRARY");
});

Deno.test("examples/distributed.ts learns to read digits on two ranks", {
  ignore: !hasMpirun || !hasOpenCL,
}, async () => {
  const out = await Deno.makeTempDir();
  const args = ["--epochs", "2", "--out", out];
  const { code, text } = await mpirun(2, "../../examples/distributed.ts", args);
  assertEquals(code, 0, text);
  const [, accuracy] = /epoch 2\/2 {2}loss \S+ {2}accuracy (\S+)/.exec(text)!;
  assert(Number(accuracy) > 0.9, text);
  assert((await Deno.stat(`${out}/model.safetensors`)).size > 0);
  await Deno.remove(out, { recursive: true });
});
