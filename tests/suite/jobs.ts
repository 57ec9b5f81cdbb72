/**
 * The jobs of the whole suite: processes, each with some files of tests, several at once. The files and
 * their folders say in which manner they run: see `words.ts`.
 */
import { mannerOf } from "./words.ts";

/** A command of `deno` that is part of the suite. */
export interface Job {
  readonly name: string;
  readonly args: readonly string[];
  /** The files of tests that it runs, in their order. */
  readonly files: readonly string[];
  /** Beside what it runs. */
  readonly place: Place;
  /** Variables of its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * The place of a job: among the others, as many at once as there are cores; or one after the other beside
 * them, because they mostly wait.
 */
export type Place = "among others" | "waiting lane";

const quickly = { POCL_EXTRA_BUILD_FLAGS: "-cl-opt-disable" };

/** Every file below a folder whose name ends so, in the order of their names. */
function filesBelow(folder: string, ending: string): string[] {
  const found = [...Deno.readDirSync(folder)].flatMap(({ name, isDirectory }) => {
    const path = `${folder}/${name}`;
    if (isDirectory) return filesBelow(path, ending);
    return name.endsWith(ending) ? [path] : [];
  });
  return found.sort();
}

function testJob(name: string, files: readonly string[]): Job {
  const [path] = files, { waits, hasQuickKernels } = mannerOf(path!);
  const what = files.length === 1 ? [path!] : ["tests/suite/together.ts", "--", ...files];
  return {
    name,
    args: ["test", "-A", "--no-check", ...what],
    files,
    place: waits ? "waiting lane" : "among others",
    env: hasQuickKernels ? quickly : {},
  };
}

/**
 * The process that a file of tests runs in: those of a folder share one, where netcl is loaded once and
 * what several need is compiled once.
 */
function processOf(path: string): string {
  const { isAlone, folder, hasQuickKernels } = mannerOf(path);
  return isAlone ? path : `${folder}/${hasQuickKernels ? " (quick kernels)" : ""}`;
}

/** Bytes of the texts of a job's tests: roughly, how long it takes. */
function bytesOf({ files }: Job): number {
  return files.reduce((sum, file) => sum + Deno.statSync(file).size, 0);
}

/** Place among jobs: the longest begin first, so that no core waits for one at the end. */
function rank(job: Job): number {
  const { words, isAlone } = mannerOf(job.files[0]!);
  return isAlone ? Number(!words.includes("first")) : -bytesOf(job);
}

/**
 * The whole suite, in the order in which to begin.
 *
 * @param tested Where an earlier run has passed a backend's tests, it has passed those without a device, and the
 *   check of types, too.
 */
export function suite(tested: string | undefined = Deno.env.get("NETCL_TESTED")): Job[] {
  const all = filesBelow("tests", "_test.ts");
  const files = tested ? all.filter((file) => mannerOf(file).hasDevice) : all;
  const processes = Map.groupBy(files, processOf);
  const tests = [...processes].map(([name, files]) => testJob(name, files))
    .toSorted((a, b) => rank(a) - rank(b));
  const types: Job = { name: "types", args: typeArgs(), files: [], place: "among others", env: {} };
  return tested ? tests : [types, ...tests];
}

/** Jobs for these files of the suite, each in a process of its own. */
export function alone(files: readonly string[]): Job[] {
  return suite().flatMap((job) =>
    job.files.filter((file) => files.includes(file)).map((file) => testJob(file, [file]))
  );
}

/** A folder stands for its modules only: the pages, whose examples have types too, are named. */
export function typeArgs(): string[] {
  const pages = ["README.md", "CONTRIBUTING.md", ...filesBelow("examples/guide", ".md")];
  return ["check", "--quiet", "--doc", ".", ...pages];
}
