/** Programs on PoCL with empty caches: their first values, their last ones, and how they end. */
import { assert, assertAlmostEquals, assertEquals, assertMatch } from "@std/assert";
import { isPoCL } from "../../../opencl.ts";
import { type Run, runProgram } from "../../../run_deno.ts";

const root = new URL("../../../../", import.meta.url);

/** Runs a program with empty caches of its own, or those that are passed; it may use netcl and `train(steps)`, which gives losses. */
async function cold(
  program: string,
  env: Record<string, string> = {},
  caches?: string,
): Promise<Run> {
  if (caches === undefined) return withCaches((folder) => cold(program, env, folder));
  const script =
    `import { Tensor, nn, optim, profiler, manualSeed, compile, shutdown, setDeterministic, saveCheckpoint, loadCheckpoint } from "${new URL(
      "mod.ts",
      root,
    )}";
    import { backendOf, manager } from "${new URL("backend/internal.ts", root)}";
    const begin = performance.now(), ms = () => Math.round(performance.now() - begin);
    manualSeed(3);
    const model = new nn.Sequential(
      new nn.Linear(12, 24), new nn.GELU(), new nn.LayerNorm(24), new nn.Linear(24, 5));
    const optimizer = new optim.Adam(model.parameters(), { lr: 0.01 });
    const x = Tensor.randn([16, 12]).realize(), y = Tensor.randint(0, 5, [16]).realize();
    const step = (given = x, labels = y) => {
      optimizer.zeroGrad();
      const loss = model.forward(given).crossEntropy(labels);
      loss.backward();
      optimizer.step();
      return loss;
    };
    const train = (steps) => Array.from({ length: steps }, () => step().itemSync());
    /** The kernels of a step, as traces show them. */
    const kernels = (fn = step) => {
      const trace = profiler.trace();
      fn().itemSync();
      trace[Symbol.dispose]();
      return profiler.table();
    };
    const isServed = (fn) => kernels(fn).includes("(built-in)");
    ${program}`;
  return await runProgram(script, {
    env: {
      NETCL_DEVICE: "cl",
      NETCL_DETERMINISTIC: "0",
      NETCL_CACHE_DIR: `${caches}/netcl`,
      POCL_CACHE_DIR: caches,
      ...env,
    },
  });
}

/** Runs something with an empty folder for the caches of its programs. */
async function withCaches<T>(fn: (folder: string) => Promise<T>): Promise<T> {
  const folder = await Deno.makeTempDir({ prefix: "netcl" });
  try {
    return await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function test(name: string, fn: () => Promise<void>): void {
  Deno.test(name, { ignore: !isPoCL }, fn);
}

function testWithCaches(name: string, fn: (folder: string) => Promise<void>): void {
  test(name, () => withCaches(fn));
}

interface Losses {
  readonly served: boolean;
  readonly losses: readonly number[];
}

/** Trains until the device's kernels compute; the number of steps is the machine's. */
const untilCompiled = (each: string) => `
  const losses = [], served = isServed(() => { const loss = ${each}; losses.push(loss.itemSync()); return loss; });
  for (const end = performance.now() + 60_000; performance.now() < end;) {
    const before = losses.length;
    const still = isServed(() => { const loss = ${each}; losses.push(loss.itemSync()); return loss; });
    if (!still) break;
    await new Promise((resolve) => setTimeout(resolve, 50));
  }
  for (let k = 0; k < 3; k++) losses.push(${each}.itemSync());
  console.log(JSON.stringify({ served, losses }));`;

function lossesOf({ out, err }: Run): Losses {
  assertMatch(out, /losses/, err);
  return JSON.parse(out);
}

testWithCaches("first values wait for no compiler, whose kernels agree", async (folder) => {
  const { served, losses } = lossesOf(await cold(untilCompiled("step()"), {}, folder));
  assert(served, "the first step is computed by the built-in kernels");
  const rest = `console.log(JSON.stringify({ losses: train(${losses.length}) }))`;
  const expected = lossesOf(await cold(rest, { NETCL_DETERMINISTIC: "1" }, folder)).losses;
  losses.forEach((loss, k) => assertAlmostEquals(loss, expected[k]!, 1e-4));
});

test("a compiled step is replayed by both tiers", async () => {
  const replayed = `const fast = compile(step);` + untilCompiled("fast(x, y)");
  const { served, losses } = lossesOf(await cold(replayed));
  assert(served);
  assert(losses.at(-1)! < losses[0]!, losses.join());
  const rest = `console.log(JSON.stringify({ losses: train(${losses.length}) }))`;
  const expected = lossesOf(await cold(rest, { NETCL_DEVICE: "cpu" })).losses;
  losses.forEach((loss, k) => assertAlmostEquals(loss, expected[k]!, 1e-4));
});

test("setDeterministic(true) waits: a first start and a second one have the same bits", async () => {
  const activations = ["tanh", "mish", "gelu", "softplus", "erf", "exp"];
  const program = `setDeterministic(true);
    const served = isServed(), losses = train(4), range = Tensor.linspace(-9, 9, 500).realize();
    for (const name of ${JSON.stringify(activations)}) losses.push(...range[name]().toHostSync());
    console.log(JSON.stringify({ served, losses }));`;
  await withCaches(async (folder) => {
    const first = lossesOf(await cold(program, {}, folder));
    assertEquals(first.served, false);
    assertEquals(lossesOf(await cold(program, {}, folder)), first);
  });
});

test("a run that is resumed has the bits of the one that went on", async () => {
  const { served, losses } = lossesOf(
    await cold(
      `
    const path = await Deno.makeTempFile({ suffix: ".safetensors" });
    const served = isServed();
    await saveCheckpoint(path, { model, optimizer });
    const first = train(3);
    await loadCheckpoint(path, { model, optimizer });
    await Deno.remove(path);
    const second = train(3);
    console.log(JSON.stringify({ served, losses: first.map((loss, k) => loss - second[k]) }));`,
      { NETCL_DETERMINISTIC: "" },
    ),
  );
  assert(served, "before the run can be resumed nothing waits");
  assertEquals(losses, [0, 0, 0]);
});

testWithCaches("a second start takes what is on disk, and is served by nobody", async (folder) => {
  await cold(untilCompiled("step()"), {}, folder);
  const { served } = lossesOf(await cold(untilCompiled("step()"), {}, folder));
  assertEquals(served, false);
});

const endings: readonly [name: string, end: string, code: number][] = [
  ["its last line", "", 0],
  ["Deno.exit", "Deno.exit(3);", 3],
  ["an error", "throw new Error('over');", 1],
  ["Ctrl+C", `Deno.kill(Deno.pid, "SIGINT"); for (;;) await step().item();`, 130],
];

/** The processes that compile for another one. */
function compilersOf(pid: string): string[] {
  if (Deno.build.os !== "linux") return [];
  return [...Deno.readDirSync("/proc")].flatMap(({ name }) => {
    try {
      const words = Deno.readTextFileSync(`/proc/${name}/cmdline`).split("\0");
      return words.includes(pid) && words.some((word) => word.endsWith("compile_process.ts"))
        ? [name]
        : [];
    } catch {
      return []; // no process, or none any more
    }
  });
}

for (const [name, end, code] of endings) {
  test(`a program whose kernels are being compiled ends with ${name}`, async () => {
    // LLVM's exit handlers end in a segmentation fault once in four times where they run: eight
    // endings of four kinds see it nine times in ten.
    for (let k = 0; k < 2; k++) {
      const run = await cold(`train(3); console.log(Deno.pid, Date.now()); ${end}`);
      const [pid, date] = run.out.trim().split(" "), took = Date.now() - Number(date);
      assertEquals(run.code, code, run.err);
      // To take the folder of the caches away is in it.
      assert(took < 2500, `the end took ${took} ms`);
      // What was killed is gone when the system has come to it.
      for (const end = Date.now() + 20_000; compilersOf(pid!).length > 0 && Date.now() < end;) {
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assertEquals(compilersOf(pid!), [], "the process that compiles ends with the program");
    }
  });
}

test("netcl can be shut down while kernels are being compiled, and be used again", async () => {
  const { code, out, err } = await cold(`train(3);
    await shutdown();
    console.log(Tensor.fromHost([1, 2]).add(1).sum().itemSync());
    await shutdown();`);
  assertEquals([code, out.trim()], [0, "5"], err);
});

test("an index out of range is an error at the read, whoever computed", async () => {
  const { code, err } = await cold(`
    const at = Tensor.fromHost(new Int32Array([1, 9])).realize();
    Tensor.ones([4, 3]).realize().indexSelect(0, at).sum().itemSync();`);
  assertEquals(code, 1);
  assertMatch(err, /RangeError: Cannot compute indexSelect: the index 9 is out of range/);
});

test("products of shapes that never come again are compiled for none of them", async () => {
  const { out, err } = await cold(`
    let wanted = 0, seed = 1;
    using _builds = profiler.onBuild((progress) => wanted = progress.wanted);
    const size = () => 1 + (seed = seed * 48271 % 2147483647) % 96;
    for (let k = 0; k < 40; k++) {
      const [m, n, k] = [size(), size(), size()];
      const product = Tensor.full([m, k], 0.5).realize().matmul(Tensor.full([k, n], 2).realize());
      if (product.sum().itemSync() !== m * n * k) throw new Error("a wrong product");
    }
    console.log(wanted);`);
  assert(Number(out) <= 6, `${out} kernels were compiled; ${err}`);
});
