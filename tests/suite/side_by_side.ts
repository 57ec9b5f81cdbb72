/** Runs jobs side by side, and says how each ended when it has. */
import type { Job, Place } from "./jobs.ts";
import { type Report, reportsOf } from "./junit.ts";

/** The end of a job. */
export interface Result {
  readonly job: Job;
  readonly success: boolean;
  /** Everything that it printed, and the signal that ended it. */
  readonly output: string;
  /** Of each file of tests that it ran. */
  readonly reports: readonly Report[];
  readonly seconds: number;
}

/** A job that takes longer hangs: it is killed. */
const MAX_SECONDS = 1200;

/**
 * Runs every job, each in its place.
 *
 * @param atOnce How many processes that compute run beside each other.
 * @param env Variables of their environment, beside those of this process.
 * @param ended Called with each result when it is there.
 */
export async function runJobs(
  jobs: readonly Job[],
  atOnce: number,
  env: Record<string, string>,
  ended: (result: Result) => void,
): Promise<void> {
  const at = (place: Place): Job[] => jobs.filter((job) => job.place === place);
  const others = at("among others");
  const lanes = [at("waiting lane"), ...Array.from({ length: atOnce }, () => others)];
  await Promise.all(lanes.map((lane) => drain(lane, env, ended)));
}

/** Runs one job after the other; several may take from the same list. */
async function drain(
  jobs: Job[],
  env: Record<string, string>,
  ended: (result: Result) => void,
): Promise<void> {
  for (let job = jobs.shift(); job; job = jobs.shift()) ended(await run(job, env));
}

async function run(job: Job, env: Record<string, string>): Promise<Result> {
  const start = performance.now();
  const report = await Deno.makeTempFile({ suffix: ".xml" });
  const [command, ...args] = job.args;
  const counted = command === "test" ? [`--junit-path=${report}`] : [];
  const child = new Deno.Command(Deno.execPath(), {
    args: [command!, ...counted, ...args],
    env: { ...env, ...job.env },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => child.kill("SIGKILL"), 1000 * MAX_SECONDS);
  const { success, signal, stdout, stderr } = await child.output();
  clearTimeout(timer);
  const reports = reportsOf(await Deno.readTextFile(report), job.files);
  await Deno.remove(report);
  const text = new TextDecoder(), ending = signal === null ? "" : `ended by ${signal}\n`;
  const output = text.decode(stdout) + text.decode(stderr) + ending;
  return { job, success, output, reports, seconds: (performance.now() - start) / 1000 };
}
