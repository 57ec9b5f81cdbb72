/**
 * Runs programs on oclgrind and fails if it reports anything:
 *
 *     deno run -A tests/oclgrind/check.ts [program.ts ...]
 *
 * Without a name it runs those that use netcl's generated kernels. First it proves that faults are
 * seen, by kernels that have one each. Where oclgrind is not installed it says so and succeeds,
 * unless CI=true.
 */
import { hasOclgrind, type Run, runOnOclgrind } from "./oclgrind.ts";
import { fileURLToPath } from "node:url";
import { filesOrExit } from "../../bench/arguments.ts";

const beside = (file: string): string => fileURLToPath(new URL(file, import.meta.url));
const kernels = beside("kernels.ts");
const chosen = filesOrExit("deno run -A tests/oclgrind/check.ts [program.ts ...]");
const programs = chosen.length > 0 ? chosen : [beside("tensors.ts")];

/** The reports that are due, by kernel. */
const faults: { readonly [kernel: string]: RegExp | null } = {
  good: null,
  out_of_bounds: /Invalid write of size 4 at global memory/,
  global_race: /data race at global memory/,
  local_race: /data race at local memory/,
  uninitialised: /Uninitialized value/,
};

/** Faults of the detection itself; empty if there are none. */
async function checkDetection(): Promise<string[]> {
  const problems: string[] = [];
  for (const [kernel, expected] of Object.entries(faults)) {
    const { success, output, reports } = await runOnOclgrind([kernels, kernel]);
    if (!success) problems.push(`${kernel} did not run:\n${output}`);
    if (expected === null && reports.length > 0) {
      problems.push(`${kernel} has no fault, reported is:\n${reports[0]}`);
    }
    if (expected !== null && !reports.some((report) => expected.test(report))) {
      problems.push(`the fault of ${kernel} was not reported: ${reports.length} other reports`);
    }
  }
  return problems;
}

/** One report of each kind and place; a race shows for every pair of work-items. */
function summarize({ reports }: Run): string {
  const kinds = new Map<string, { first: string; count: number }>();
  for (const report of reports) {
    const kind = report.replace(/0x[\da-f]+|\(\d+,\d+,\d+\)/g, "*");
    const seen = kinds.get(kind);
    if (seen) seen.count++;
    else kinds.set(kind, { first: report, count: 1 });
  }
  return [...kinds.values()].map(({ first, count }) => `${count} times: ${first}`).join("\n\n");
}

async function checkProgram(program: string): Promise<boolean> {
  const start = performance.now();
  const run = await runOnOclgrind([program]);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const clean = run.success && run.reports.length === 0;
  console.log(`${program}: ${clean ? "nothing reported" : "faults"} (${seconds} s)`);
  if (!run.success) console.log(run.output);
  if (run.reports.length > 0) console.log(summarize(run));
  return clean;
}

if (!hasOclgrind()) {
  console.log("oclgrind is not installed (Debian: oclgrind): kernels are not checked");
  Deno.exit(Deno.env.get("CI") === "true" ? 1 : 0);
}
const problems = await checkDetection();
console.log(
  problems.length === 0
    ? "oclgrind reports out-of-bounds, races and uninitialised reads"
    : problems.join("\n"),
);
let clean = problems.length === 0;
for (const program of programs) clean = await checkProgram(program) && clean;
Deno.exit(clean ? 0 : 1);
