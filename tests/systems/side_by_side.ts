/** Programs and tests that a check runs, several side by side, with a line for each. */

/** A program that a check runs to its end. */
export interface Job {
  readonly name: string;
  readonly command: readonly string[];
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  /** True where the program did what it must; default: it ended well. */
  isMet?(ended: Ended): boolean;
}

/** The end of a program. */
export interface Ended {
  /** The status that the system gives; null where it had to be ended. */
  readonly code: number;
  readonly success: boolean;
  /** All that it printed. */
  readonly output: string;
}

/** Runs a job within a time, in seconds; says what it printed where it failed. */
async function passes(
  { name, command, cwd, env, isMet = ({ success }) => success }: Job,
  limit: number,
): Promise<boolean> {
  const start = performance.now();
  const { code, success, stdout, stderr } = await new Deno.Command("timeout", {
    args: ["-k", "10", `${limit}`, ...command],
    ...(cwd && { cwd }),
    ...(env && { env }),
    stdin: "null",
  }).output();
  const text = new TextDecoder(), output = text.decode(stdout) + text.decode(stderr);
  const isWell = isMet({ code, success, output });
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const summary = output.match(/^ok \|.*$|^.*: met$|^accuracy: .*$/m)?.[0] ?? "";
  console.log(`${isWell ? "passed" : "FAILED"}  ${name} (${seconds} s) ${summary}`);
  if (!isWell) console.log(`${output}\nended with ${code}`);
  return isWell;
}

/** Runs all jobs, so many at once, each within a time in seconds; false where one fails. */
export async function runJobs(
  jobs: readonly Job[],
  { atOnce, limit }: { readonly atOnce: number; readonly limit: number },
): Promise<boolean> {
  const left = [...jobs], results: boolean[] = [];
  const worker = async (): Promise<void> => {
    for (let job = left.shift(); job !== undefined; job = left.shift()) {
      results.push(await passes(job, limit));
    }
  };
  await Promise.all(Array.from({ length: atOnce }, worker));
  return results.every((isWell) => isWell);
}
