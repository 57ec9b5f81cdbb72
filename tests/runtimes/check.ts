/**
 * Runs tests on Node and Bun, which npm installs in a folder of their own, and the packed package: a program
 * of it by `npx` and `bunx`.
 *
 *     deno run -A tests/runtimes/check.ts [--folder FOLDER] [--only node|bun] [file or folder of tests ...]
 *
 * Without a file of tests it runs a share of them. FOLDER keeps the tools for the next time. Where npm cannot
 * install them it says so and succeeds, unless CI=true.
 */
import { dirname, join } from "node:path";
import { parseArgs } from "node:util";
import { installTools, succeed, type Tools } from "./tools.ts";
import { makePackage } from "./package.ts";
import { copyFiles, entries, root, transpile } from "./transpile.ts";

/** Layers that depend on the runtime, and a look at those above. */
const share = [
  "tests/backend/lifecycle",
  "tests/conformance/promotion_test.ts",
  "tests/ffi/events",
  "tests/ffi/host/atomic_file_test.ts",
  "tests/ffi/kernels",
  "tests/ffi/memory",
  "tests/ffi/queue/command_queue_test.ts",
  "tests/memory/pools/slab_pool_test.ts",
  "tests/memory/sources",
  "tests/signals/matrix_test.ts",
  "tests/tensor/autograd/autograd_test.ts",
  "tests/tensor/execution/fusion_test.ts",
  "tests/tensor/io/safetensors_format_test.ts",
];
/** Seconds until tests that hang are ended: gradients of all operations take minutes on a busy machine. */
const TIME_LIMIT = 3600;
/** Files whose tests run in one process: to start one takes a second. */
const FILES_PER_PROCESS = { share: 40, all: 1 };

type Runtime = keyof Tools["runtimes"];

export function* testsIn(path: string, names = /_test\.ts$/): Generator<string> {
  if (path.endsWith(".ts")) return yield path;
  for (const { name, isDirectory } of Deno.readDirSync(`${root}${path}`)) {
    if (isDirectory) yield* testsIn(`${path}/${name}`, names);
    else if (names.test(name)) yield `${path}/${name}`;
  }
}

/** Folders whose files tests read: what lies beside them, and sources, as text. */
const READ = ["ffi", "memory", "backend", "tensor", "tests"];

/** Modules of tests that those of a folder name by address: programs that they start, threads, samples of loaders. */
function* programsIn(folder: string): Generator<string> {
  for (const { name } of Deno.readDirSync(`${root}${folder}`)) {
    if (!name.endsWith(".ts")) continue;
    const text = Deno.readTextFileSync(`${root}${folder}/${name}`);
    for (const [, module] of text.matchAll(/new URL\(\s*"([^"]+\.ts)", import\.meta\.url\)/g)) {
      const path = join(folder, module!);
      if (path.startsWith("tests/")) yield path;
    }
  }
}

/** The tests as JavaScript, in a folder in which they find netcl by its name. */
export async function makeTests(
  tools: Tools,
  folder: string,
  files: readonly string[],
): Promise<void> {
  const runner = "tests/runtimes/run_tests.ts";
  const config = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  const own = ["tests/std/assert/mod.ts", runner];
  const folders = new Set(files.map((file) => dirname(file)));
  const programs = [...folders].flatMap((folder) => [...programsIn(folder)]);
  const modules = [...Object.values<string>(config.exports), ...own, ...programs, ...files];
  await transpile(tools, { modules, folder });
  await copyFiles([
    ...READ.flatMap((name) => [...testsIn(name, /./)]),
    "examples/data/digits.csv.gz",
  ], folder);
  const manifest = { name: config.name, ...entries(config.exports) };
  await Deno.writeTextFile(`${folder}/package.json`, JSON.stringify(manifest));
  const assert = `${folder}/node_modules/@std/assert`;
  await Deno.mkdir(assert, { recursive: true });
  await Deno.writeTextFile(
    `${assert}/package.json`,
    '{ "name": "@std/assert", "type": "module", "exports": "./mod.js" }',
  );
  await Deno.copyFile(`${folder}/tests/std/assert/mod.js`, `${assert}/mod.js`);
  for (const name of ["fast-check", "pure-rand"]) {
    await Deno.symlink(`${tools.modules}/${name}`, `${folder}/node_modules/${name}`);
  }
}

/** Runs a command within a time; says what it printed where it failed. */
async function passes(
  name: string,
  command: string,
  args: string[],
  cwd: string,
  env: Record<string, string> = {},
): Promise<boolean> {
  const start = performance.now();
  const { success, stdout, stderr } = await new Deno.Command("timeout", {
    args: ["-k", "10", `${TIME_LIMIT}`, command, ...args],
    cwd,
    env: { NODE_NO_WARNINGS: "1", NO_COLOR: "1", ...env },
    stdin: "null",
  }).output();
  const text = new TextDecoder(), out = text.decode(stdout);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const summary = /^(?:ok|FAILED) \|.*$/m.exec(out)?.[0] ?? /^accuracy:.*$/m.exec(out)?.[0] ?? "";
  console.log(`${success ? "passed" : "FAILED"}  ${name} (${seconds} s) ${summary}`);
  if (!success) console.log(out.replaceAll(/^(passed|left out) .*\n/gm, "") + text.decode(stderr));
  return success;
}

/** Tests on one runtime, some files in a process at a time. */
async function runTests(
  { runtimes }: Tools,
  runtime: Runtime,
  folder: string,
  files: readonly string[],
  together: number,
): Promise<boolean> {
  let ok = true;
  for (let at = 0; at < files.length; at += together) {
    const some = files.slice(at, at + together);
    const js = ["tests/runtimes/run_tests.ts", ...some].map((file) => file.replace(/\.ts$/, ".js"));
    const name = `${runtime}: ${some[0]}${some.length > 1 ? ` and ${some.length - 1} more` : ""}`;
    ok = await passes(name, runtimes[runtime], js, folder) && ok;
  }
  return ok;
}

/** A user's folder in which the packed package is installed, and its program run by the runtime's own way. */
async function runPackage(
  { runtimes }: Tools,
  runtime: Runtime,
  folder: string,
  file: string,
): Promise<boolean> {
  const project = `${folder}/${runtime}`, program = ["train", "--epochs", "2", "--out", "out"];
  await Deno.mkdir(project, { recursive: true });
  await Deno.writeTextFile(`${project}/package.json`, "{}");
  await succeed("npm", ["install", "--no-audit", "--no-fund", "--loglevel=error", file], project);
  const [command, ...args] = {
    node: ["npx", "--offline", ...program],
    bun: [runtimes.bun, "x", "--bun", ...program],
  }[runtime];
  const path = `${dirname(runtimes[runtime])}:${Deno.env.get("PATH")}`;
  return await passes(`${runtime}: the package's train`, command!, args, project, { PATH: path });
}

async function main(): Promise<boolean> {
  const { values, positionals } = parseArgs({
    args: Deno.args,
    allowPositionals: true,
    options: { folder: { type: "string" }, only: { type: "string" } },
  });
  const temporary = await Deno.makeTempDir({ prefix: "runtimes" });
  try {
    let tools: Tools;
    try {
      tools = await installTools(values.folder ?? `${temporary}/tools`);
    } catch (error) {
      console.log(`Node and Bun cannot be installed: ${(error as Error).message}`);
      return Deno.env.get("CI") !== "true";
    }
    const paths = positionals.length > 0 ? positionals : share;
    const files = [...new Set(paths.flatMap((path) => [...testsIn(path)]))].sort();
    await makeTests(tools, `${temporary}/tests`, files);
    const file = positionals.length > 0 ? null : await makePackage(temporary, tools);
    const runtimes = (["node", "bun"] as const).filter((name) => (values.only ?? name) === name);
    const results = await Promise.all(runtimes.map(async (runtime) => {
      const together = FILES_PER_PROCESS[file === null ? "all" : "share"];
      const ok = await runTests(tools, runtime, `${temporary}/tests`, files, together);
      return (file === null || await runPackage(tools, runtime, temporary, file)) && ok;
    }));
    return results.length > 0 && results.every((ok) => ok);
  } finally {
    await Deno.remove(temporary, { recursive: true });
  }
}

if (import.meta.main) Deno.exit(await main() ? 0 : 1);
