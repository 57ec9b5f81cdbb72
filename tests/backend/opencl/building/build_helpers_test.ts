/** Programs that are built by processes beside this one. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { hasEnded } from "../../../../backend/opencl/building/ended_process.ts";
import {
  BuildHelpers,
  helperCount,
  helpersEnded,
} from "../../../../backend/opencl/building/build_helpers.ts";
import type { ProgramSource } from "../../../../backend/opencl/building/build_program.ts";
import { JobFolder } from "../../../../backend/opencl/building/job_folder.ts";
import { BinaryCache } from "../../../../backend/opencl/runtime/binary_cache.ts";
import type { KernelText } from "../../../../backend/opencl/runtime/kernel_texts.ts";
import { watchBuilds } from "../../../../backend/profiling/builds.ts";
import { Buffer, KernelBuildError, Program } from "../../../../ffi/mod.ts";
import { hasOpenCL, openCLDevice } from "../../../opencl.ts";
import { runDeno, runProgram } from "../../../run_deno.ts";
import { programsOf, testWithCache, withBuildFolder, withCacheFolder } from "../fixture.ts";
import { testInFolder } from "../../../temporary_folder.ts";
import { setVariables } from "../../../variables.ts";

const flag = new Int32Array(new SharedArrayBuffer(4));

const source = (k: number): ProgramSource => ({
  text: `kernel void k${k}(global float* y) { y[get_global_id(0)] = ${k}.0f; }`,
  options: "-cl-std=CL1.2",
  isLifted: false,
});

const testBuilding = (...[name, fn, ignore]: Parameters<typeof testInFolder>): void =>
  testInFolder(name, fn, ignore, withBuildFolder);

/** Runs with so many helpers wanted; null leaves the number to netcl. */
function withProcesses<T>(count: string | null, use: () => T): T {
  using _variables = setVariables({ NETCL_BUILD_PROCESSES: count ?? undefined });
  return use();
}

testBuilding("BuildHelpers: each job is taken once, in order, and built or given up", (parent) => {
  const jobs = [0, 1, 2, 3].map(source);
  const first = JobFolder.create(parent, jobs), second = new JobFolder(first.path);
  assertEquals(first.take(), { job: 0, source: jobs[0]! });
  assertEquals(second.take(), { job: 1, source: jobs[1]! });
  assertEquals(first.take()!.job, 2);
  second.built(1, new Uint8Array([1, 2]));
  second.failed(2);
  assertEquals([...first.states()].sort(([a], [b]) => a - b), [
    [0, { kind: "taken", pid: Deno.pid }],
    [1, { kind: "built" }],
    [2, { kind: "failed" }],
  ]);
  assertEquals(first.binary(1), new Uint8Array([1, 2]));
  assertEquals([second.take()!.job, second.take(), first.take()], [3, null, null]);
  first.remove();
  assertThrows(() => second.take(), Deno.errors.NotFound);
  assertEquals([...Deno.readDirSync(parent)], []);
});

testBuilding("BuildHelpers: who waits for jobs gets them, or takes the folder away", (parent) => {
  const folder = JobFolder.create(parent, []), waiting = new JobFolder(folder.path);
  assertEquals([waiting.isWaiting, waiting.take()], [true, null]);
  assert(folder.add([source(0)]));
  assertEquals([waiting.isWaiting, waiting.take()!.job], [false, 0]);
  waiting.leave(); // too late
  assertEquals(folder.take(), null);
  folder.remove();
  const other = JobFolder.create(parent, []);
  new JobFolder(other.path).leave();
  assertEquals([other.isWaiting, other.add([source(0)])], [false, false]);
  assertEquals([...Deno.readDirSync(parent)], []);
});

/** Blocks until so many jobs of the one folder in `parent` are built by others. */
function untilBuilt(parent: string, count: number): void {
  const [name] = [...Deno.readDirSync(parent)].map(({ name }) => name);
  const folder = new JobFolder(`${parent}/${name}`), until = performance.now() + 60_000;
  const built = () => [...folder.states().values()].filter(({ kind }) => kind === "built").length;
  while (built() < count && performance.now() < until) Atomics.wait(flag, 0, 0, 20);
}

testBuilding("BuildHelpers: those that wait build what comes, or go home", (parent) => {
  const helpers = new BuildHelpers(parent, openCLDevice.clDevice!), jobs = [0, 1, 2, 3].map(source);
  withProcesses("2", () => helpers.expect());
  const before = [...Deno.readDirSync(parent)].map(({ name }) => name);
  const adopted: number[] = [];
  helpers.build(jobs, 1, {
    build: () => untilBuilt(parent, 2),
    adopt: (job) => adopted.push(job) > 0,
  });
  assertEquals(before.length, 1);
  assert(adopted.length >= 2, `${adopted} were built beside`);
  withProcesses("1", () => helpers.expect());
  helpers.dispose();
  assertEquals([...Deno.readDirSync(parent)], []);
}, !hasOpenCL);

testBuilding("BuildHelpers: those that nobody needs end at once, even starting", async (parent) => {
  const helpers = new BuildHelpers(parent, openCLDevice.clDevice!), nothing = { build: () => {} };
  withProcesses("2", () => helpers.expect());
  helpers.dispose();
  const killed = (count: number) => Array(count).fill("SIGKILL");
  const signals = async () => (await helpersEnded()).map(({ signal }) => signal);
  assertEquals(await signals(), killed(2));
  helpers.build([source(0)], 1, { ...nothing, adopt: () => false });
  assertEquals(await signals(), killed(1));
}, !hasOpenCL);

testBuilding("BuildHelpers: one whose starter has ended builds nothing", async (parent) => {
  const { platform, name } = openCLDevice.clDevice!;
  const path = import.meta.resolve("../../../../backend/opencl/building/build_helper.ts");
  const ended = await new Deno.Command(Deno.execPath(), { args: ["--version"], stdout: "null" })
    .spawn();
  await ended.status;
  const folders = [[], [0, 1].map(source)].map((jobs) => JobFolder.create(parent, jobs));
  const starts = folders.map((folder) =>
    runDeno(["run", "-A", path, platform.name, name, "0", String(ended.pid), folder.path])
  );
  assertEquals((await Promise.all(starts)).map(({ code, err }) => [code, err]), [[0, ""], [0, ""]]);
  assertEquals([...Deno.readDirSync(parent)], []);
}, !hasOpenCL);

testBuilding("BuildHelpers: what a killed process left goes, what others use stays", (parent) => {
  const old = JobFolder.create(parent, [source(0)]), used = JobFolder.create(parent, []);
  const hours = new Date(Date.now() - 2 * 3_600_000);
  Deno.utimeSync(old.path, hours, hours);
  JobFolder.create(parent, []).remove();
  assertThrows(() => old.take(), Deno.errors.NotFound);
  assertEquals(used.take(), null);
});

testBuilding("BuildHelpers build what this process has not begun, which adopts it", (parent) => {
  const { context, clDevice } = openCLDevice, jobs = [0, 1, 2, 3, 4].map(source);
  const here: number[] = [], adopted: number[] = [];
  new BuildHelpers(parent, clDevice!).build(jobs, 2, {
    build: (job) => {
      here.push(job);
      // As long as a helper takes to start: the first job here, the others there.
      untilBuilt(parent, 4);
    },
    adopt: (job, binary) => {
      using program = Program.fromBinary(context!, clDevice!, binary).build();
      assertEquals(program.kernelNames, [`k${job}`]);
      adopted.push(job);
      return true;
    },
  });
  assertEquals(here, [0]);
  assertEquals(adopted.sort(), [1, 2, 3, 4]);
  assertEquals([...Deno.readDirSync(parent)], []);
}, !hasOpenCL);

testBuilding("BuildHelpers: what they give up or build in vain is built here", (parent) => {
  const wrong = { ...source(1), text: "kernel void wrong(global float* y) { y = nothing; }" };
  const jobs = [source(0), wrong, source(2)];
  const { context, clDevice } = openCLDevice, built: number[] = [];
  const build = (job: number): void => {
    if (job === 0) Atomics.wait(flag, 0, 0, 3000);
    built.push(job);
    new Program(context!, jobs[job]!.text).build(jobs[job]!.options).release();
  };
  const run = () =>
    new BuildHelpers(parent, clDevice!).build(jobs, 1, { build, adopt: () => false });
  const error = assertThrows(run, KernelBuildError);
  assert(error.message.includes("nothing"));
  assert(built.includes(1));
  assertEquals([...Deno.readDirSync(parent)], []);
}, !hasOpenCL);

Deno.test("BuildHelpers: a process that has ended is told from one that runs", {
  ignore: Deno.build.os !== "linux",
}, async () => {
  const start = (text: string) =>
    new Deno.Command(Deno.execPath(), { args: ["eval", text], stdin: "piped" }).spawn();
  const short = start(""), long = start("await new Response(Deno.stdin.readable).text()");
  const until = performance.now() + 30_000;
  while (!hasEnded(short.pid) && performance.now() < until) Atomics.wait(flag, 0, 0, 20);
  assertEquals([hasEnded(short.pid), hasEnded(long.pid)], [true, false]);
  for (const { stdin } of [short, long]) await stdin.close().catch(() => {});
  assertEquals([(await short.status).code, (await long.status).code], [0, 0]);
});

/** Kernels that are a program each. */
const texts: KernelText[] = Array.from({ length: 5 }, (_, k) => ({
  source: `(global float* y) { ${";".repeat(5000)} y[get_global_id(0)] = ${k}.5f; }`,
  label: `large${k}`,
}));

testWithCache("BuildHelpers: their kernels compute, count as built, and are cached", async () => {
  const { context, queue, clDevice } = openCLDevice;
  const start = (): [values: number[], wanted: number, built: number] => {
    using programs = programsOf(BinaryCache.open(clDevice!), "at once", true);
    let wanted = 0, built = 0;
    using _watch = watchBuilds((progress) => ({ wanted, built } = progress));
    using buffer = new Buffer(context!, 4);
    withProcesses("2", () => programs.build(texts));
    const values = texts.map(({ source }) => {
      const { kernel } = programs.kernel(source), read = new Float32Array(1);
      kernel.setBuffer(0, buffer);
      queue!.enqueueKernel(kernel, 1, new BigUint64Array([1n]), new BigUint64Array([1n]));
      queue!.read(buffer, read).release();
      queue!.finishSync();
      return read[0]!;
    });
    return [values, wanted, built];
  };
  const values = [0.5, 1.5, 2.5, 3.5, 4.5];
  assertEquals(start(), [values, 5, 5]);
  assertEquals(start(), [values, 0, 0]);
  await helpersEnded();
});

Deno.test("BuildHelpers: helpers are for much work, as many as the environment says", () => {
  const jobs = (count: number, characters: number): ProgramSource[] =>
    Array.from(
      { length: count },
      () => ({ text: "x".repeat(characters), options: "", isLifted: false }),
    );
  withProcesses(null, () => {
    assertEquals(helperCount(jobs(1, 1e6)), 0);
    assertEquals(helperCount(jobs(4, 1000)), 0);
    assert(helperCount(jobs(20, 20_000)) <= 8);
  });
  withProcesses("3", () => assertEquals(helperCount(jobs(4, 10)), 3));
  withProcesses("3", () => assertEquals(helperCount(jobs(2, 10)), 1));
  withProcesses("0", () => assertEquals(helperCount(jobs(20, 20_000)), 0));
  withProcesses("many", () => {
    assertThrows(() => helperCount(jobs(2, 10)), RangeError, 'NETCL_BUILD_PROCESSES is "many"');
  });
});

Deno.test("BuildHelpers: without the permission to run programs nothing is built beside", async () => {
  const helpers = new URL("../../../../backend/opencl/building/build_helpers.ts", import.meta.url);
  const program = `import { helperCount } from "${helpers}";
    const job = { text: "x".repeat(100_000), options: "", isLifted: false };
    console.log(helperCount([job, job]));`;
  const { out, err } = await runDeno([
    ...["run", "--no-check", "--allow-ffi", "--allow-env", "--allow-read"],
    `data:application/typescript,${encodeURIComponent(program)}`,
  ]);
  assertEquals([out.trim(), err], ["0", ""]);
});

Deno.test("BuildHelpers: Ctrl+C between two builds ends the program, and leaves no folder", {
  ignore: !hasOpenCL || Deno.build.os !== "linux",
}, () =>
  withCacheFolder(async (folder) => {
    const url = (path: string) => new URL(`../../../../${path}`, import.meta.url);
    const program = `
        import { manager } from "${url("mod.ts")}";
        import { BuildHelpers } from "${url("backend/opencl/building/build_helpers.ts")}";
        const { queue, clDevice } = manager.default("cl");
        const jobs = Array.from({ length: 50 }, () => ({ text: "", options: "", isLifted: false }));
        const flag = new Int32Array(new SharedArrayBuffer(4));
        new BuildHelpers("${folder}", clDevice).build(jobs, 0, {
          build: (job) => {
            if (job === 1) Deno.kill(Deno.pid, "SIGINT");
            Atomics.wait(flag, 0, 0, 100);
          },
          adopt: () => true,
        });
        console.log("went on");`;
    const { out, code } = await runProgram(program);
    assertEquals([out, code], ["", 130]);
    assertEquals([...Deno.readDirSync(folder)].filter(({ name }) => name.includes("building")), []);
  }));
