/** The jobs of the whole suite: processes, each with some files of tests, several at once. */

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

/**
 * Files and folders that have a process of their own, what takes longest on two cores first: no core
 * waits for one of them at the end.
 */
const longest = [
  "backend/opencl/",
  "tensor/nn/",
  "tensor/",
  "distributed/",
  "backend/",
  "contributing",
  "examples/transformer",
  "conformance/eager",
  "tensor/graphs",
  "conformance/",
  "backend/sharing/workers",
  "tensor/nn/attention/product_attention",
  "conformance/values",
  "tensor/nn/fused_attention",
  "faults/training",
  "examples/serve",
];

/** Folders whose other files share a process; docs/ sets its default device in the environment. */
const shared = [
  ...longest.filter((part) => part.endsWith("/")),
  "docs/",
  "ffi/",
  "laws/",
  "memory/",
  "",
]
  .toSorted((a, b) => b.length - a.length);

/**
 * Tests that have a process of their own beside those: they ask what all tensors or blocks of the process come
 * to, has hooks around every test, or takes longer behind others.
 */
const apart = [
  "conformance/singular",
  "docs/opencl",
  "tensor/autograd/abandoned",
  "tensor/autograd/saved_values",
  "tensor/compile/replayed_launches",
  "tensor/execution/flat_memory",
  "tensor/execution/out_of_scope",
  "tensor/execution/pinned",
  "tensor/execution/step_memory",
];

/** Signals arrive at certain times, grace windows end at others; a large tensor takes much memory. */
const waiting = [
  "signals/",
  "ffi/library/signals",
  "ffi/library/faults",
  "backend/lifecycle/",
  "backend/opencl/runtime/programs",
  "distributed/endings",
  "tensor/execution/large",
];

/**
 * Tests of layers above the kernels, or of their life. PoCL compiles for it without optimizing,
 * in two thirds of the time or half of it. That the optimized kernels are right is what these hold: every
 * operation and type in `conformance/values` and `conformance/primitives`, random graphs in `fuzz/` and
 * `tensor/graphs`, and the tests of `tensor/ops/` and of code generators and templates in `backend/`.
 */
const aboveKernels = [
  "backend/opencl/tiers/",
  "backend/sharing/workers",
  "bench/",
  "conformance/constants",
  "conformance/gradients",
  "conformance/promotion",
  "conformance/singular",
  "distributed/",
  "docs/",
  "faults/",
  "tensor/amp/",
  "tensor/autograd/",
  "tensor/compile/",
  "tensor/data/",
  "laws/distinct",
  "tensor/execution/",
  "tensor/io/",
  "tensor/nn/",
  "tensor/optim/",
  "tensor/page",
  "laws/wrong_types",
];

/** Their kernels compute for longer than the optimizer would take. */
const optimized = [
  "tensor/execution/large",
  "tensor/nn/attention/product_attention",
];

/** Tests and folders, under `tests/`, that the suite treats in a way of their own: without "_test.ts". */
export const named: readonly string[] = [
  ...longest,
  ...apart,
  ...waiting,
  ...aboveKernels,
  ...optimized,
];

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

/** The first of the names that a file has or lies below. */
function partOf(path: string, parts: readonly string[]): string | undefined {
  return parts.find((part) =>
    /^$|\/$/.test(part) ? path.startsWith(`tests/${part}`) : path === `tests/${part}_test.ts`
  );
}

function placeOf(path: string): Place {
  return partOf(path, waiting) ? "waiting lane" : "among others";
}

/**
 * The process that a file of tests runs in: those of a folder share one, where netcl is loaded once and
 * what several need is compiled once.
 */
function processOf(path: string): string {
  const own = [...longest, ...apart].filter((part) => !part.endsWith("/"));
  if (placeOf(path) !== "among others" || partOf(path, own)) return path;
  return `tests/${partOf(path, shared)}`;
}

function testJob(name: string, files: readonly string[], env: Job["env"]): Job {
  const [path] = files;
  const what = files.length === 1 ? [path!] : ["tests/suite/together.ts", "--", ...files];
  const args = ["test", "-A", "--no-check", ...what];
  return { name, args, files, place: placeOf(path!), env };
}

function rank({ files: [file] }: Job): number {
  const own = longest.filter((part) => !part.endsWith("/"));
  if (partOf(file!, apart)) return longest.length;
  // Files without a folder of their own take long together.
  const at = longest.indexOf(partOf(file!, own) ?? (partOf(file!, shared) || "backend/"));
  return at < 0 ? longest.length : at;
}

/** The whole suite, in the order in which to begin. */
export function suite(): Job[] {
  const isQuick = (path: string): boolean =>
    partOf(path, aboveKernels) !== undefined && partOf(path, optimized) === undefined;
  const processesOf = (paths: readonly string[], env: Job["env"]): Job[] =>
    [...Map.groupBy(paths, processOf)].map(([name, files]) => testJob(name, files, env));
  const files = filesBelow("tests", "_test.ts");
  const tests = [
    ...processesOf(files.filter(isQuick), quickly),
    ...processesOf(files.filter((path) => !isQuick(path)), {}),
  ].toSorted((a, b) => rank(a) - rank(b));
  return [{ name: "types", args: typeArgs(), files: [], place: "among others", env: {} }, ...tests];
}

/** Jobs for these files of the suite, each in a process of its own. */
export function alone(files: readonly string[]): Job[] {
  return suite().flatMap((job) =>
    job.files.filter((file) => files.includes(file)).map((file) => testJob(file, [file], job.env))
  );
}

/** A folder stands for its modules only: the pages, whose examples have types too, are named. */
export function typeArgs(): string[] {
  const pages = ["README.md", "CONTRIBUTING.md", ...filesBelow("examples/guide", ".md")];
  return ["check", "--quiet", "--doc", ".", ...pages];
}
