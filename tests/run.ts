/**
 * `deno task test`: the whole suite, with its own set-up. On a Debian-like machine it first installs what
 * is small and missing: PoCL where there is no OpenCL platform, mpirun, headers. What cannot be had leaves
 * tests out; the last line says how many, and what to install. With CI=true a missing OpenCL platform is
 * a failure.
 *
 * The files of tests of a folder share a process, and as many run side by side as there are cores. With
 * arguments there is one process, and they go to `deno test`: `deno task test tests/memory --filter
 * SlabPool`.
 */
import { alone, suite } from "./suite/jobs.ts";
import { addUp, type Counts, type Report } from "./suite/junit.ts";
import { leftOut, needs, provide } from "./suite/needs.ts";
import { hasOpenCL, linker } from "./suite/opencl.ts";
import { type Result, runJobs } from "./suite/side_by_side.ts";

/** More would want more memory than most machines have. */
const MAX_AT_ONCE = 8;

/** Files that may fail beside others for the time that they get; what each must then pass alone. */
const MAX_UNSTEADY = 3, TRIES = 3;

/**
 * Thousands of kernels, each for one test: to keep them would compile every one twice on PoCL, a third
 * of the whole time, and push a user's own out of the cache.
 */
const env = {
  NETCL_CACHE_DIR: Deno.env.get("NETCL_CACHE_DIR") ?? "off",
  // Tests of helpers that build kernels start their own; others would see them as leaks on a GPU.
  NETCL_BUILD_PROCESSES: "0",
  // What is tested on PoCL are its kernels, not those that serve while they are compiled.
  NETCL_DETERMINISTIC: "1",
  ...Deno.build.os === "linux" && { PATH: `${linker}:${Deno.env.get("PATH")}` },
};

const hasColors = Deno.stdout.isTerminal() && !Deno.noColor;

function colored(text: string, code: number): string {
  return hasColors ? `\x1b[${code}m${text}\x1b[0m` : text;
}

const ok = (): string => colored("ok", 32), failed = (): string => colored("FAILED", 31);

/** A line for a file of tests, or for a job that runs none. */
function say(success: boolean, name: string, seconds: number, { all }: Partial<Counts> = {}): void {
  const tests = all === undefined ? "" : `${all} tests, `;
  const detail = colored(`(${tests}${seconds.toFixed(1)} s)`, 90);
  console.log(`${success ? ok() : failed()} ${name} ${detail}`);
}

/** A file or job that failed, with its tests that did. */
type Failed = Pick<Report, "name" | "failures">;

/** Prints the output of a job that failed, and its lines; gives back what failed, for the last lines. */
function sayAll({ job, success, output, reports, seconds }: Result): Failed[] {
  if (!success) console.log(`\n${output.trimEnd()}\n`);
  const bad = reports.filter(({ counts }) => counts.failed > 0).map(({ name }) => name);
  // It may fail beside its tests: while it loads them, or by a signal, which leaves no report.
  const asOne = reports.length === 0 || !success && bad.length === 0;
  if (asOne) say(success, job.name, seconds);
  else {for (const { name, counts, seconds } of reports) {
      say(!bad.includes(name), name, seconds, counts);
    }}
  if (asOne) return success ? [] : [{ name: job.name, failures: [] }];
  return reports.filter(({ counts }) => counts.failed > 0);
}

/**
 * Runs what failed on the quiet machine: true if it passes, and so only a busy one makes it fail. More than a few
 * files do not fail for that.
 */
async function passAlone(bad: readonly string[]): Promise<boolean> {
  if (bad.length === 0 || bad.length > MAX_UNSTEADY) return false;
  const results: Result[] = [];
  const again = alone(bad);
  for (let tries = 0; tries < TRIES; tries++) {
    await runJobs(again, 1, env, (result) => results.push(result));
  }
  results.filter(({ success }) => !success).forEach(sayAll);
  return again.length === bad.length && results.every(({ success }) => success);
}

/** The entries of the root, which tests leave as they found them; "out" is for what is made and kept. */
function inRoot(): ReadonlySet<string> {
  return new Set(
    [...Deno.readDirSync(".")].map(({ name }) => name).filter((name) => name !== "out"),
  );
}

/** The whole suite; gives back how many tests there were, and whether all is well. */
async function runAll(): Promise<[success: boolean, counts: Counts]> {
  const start = performance.now(), found: Counts[] = [], bad: Failed[] = [];
  const before = inRoot();
  const atOnce = Math.min(navigator.hardwareConcurrency, MAX_AT_ONCE);
  await runJobs(suite(), atOnce, env, (result) => {
    found.push(...result.reports.map(({ counts }) => counts));
    bad.push(...sayAll(result));
  });
  const unsteady = await passAlone(bad.map(({ name }) => name)), sum = addUp(found);
  const counts = unsteady ? { ...sum, failed: 0 } : sum;
  console.log();
  for (const { name, failures } of bad) {
    console.log(
      [`${unsteady ? colored("UNSTEADY", 33) : failed()} ${name}`, ...failures].join("\n  "),
    );
  }
  if (unsteady) {
    console.log(`What is unsteady failed above, beside others, then passed ${TRIES} times alone.`);
    bad.length = 0;
  }
  for (const name of inRoot().difference(before)) {
    console.log(
      `${failed()} a test wrote "${name}" into the root: tests write into temporary folders`,
    );
    bad.push({ name, failures: [] });
  }
  const seconds = Math.round((performance.now() - start) / 1000);
  const time = `${Math.floor(seconds / 60)}m${seconds % 60}s`;
  console.log(`${bad.length === 0 ? ok() : failed()} | ${inWords(counts)} (${time})`);
  return [bad.length === 0, counts];
}

function inWords({ all, ignored, failed }: Counts): string {
  const parts = [`${all - ignored - failed} passed`, `${failed} failed`];
  return [...parts, ...ignored > 0 ? [`${ignored} ignored`] : []].join(" | ");
}

/** Runs what the user chose, in one process; gives back whether all is well. */
async function runChosen(args: readonly string[]): Promise<boolean> {
  const files = args.some((arg) => !arg.startsWith("-")) ? [] : ["tests"];
  const { success } = await new Deno.Command(Deno.execPath(), {
    args: ["test", "-A", ...args, ...files],
    env,
    stdin: "null",
  }).spawn().status;
  return success;
}

Deno.chdir(new URL("..", import.meta.url));
const isWhole = Deno.args.length === 0;
const lacking = await provide(isWhole ? needs : needs.slice(0, 1));
if (isWhole) {
  const [success, { all, ignored }] = await runAll();
  Deno.exitCode = success ? 0 : 1;
  console.log(leftOut(ignored, all, lacking));
} else {
  Deno.exitCode = await runChosen(Deno.args) ? 0 : 1;
}
if (Deno.env.get("CI") === "true" && !await hasOpenCL()) {
  console.log("CI=true: without an OpenCL platform too much is left out.");
  Deno.exitCode ||= 1;
}
