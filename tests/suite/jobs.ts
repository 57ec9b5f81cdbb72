/** What the whole suite consists of: one process for each file of tests, so that several run at once. */

/** A command of `deno` that is part of the suite. */
export interface Job {
  readonly name: string;
  readonly args: readonly string[];
  /** It measures times, or takes all memory there is: nothing runs beside it. */
  readonly alone: boolean;
  /** Variables of its environment. */
  readonly env: Readonly<Record<string, string>>;
}

/**
 * What takes longest on two cores with cold caches, the longest first (CPU seconds in 2026: 70 to 15).
 * They are begun first, so that no core waits for one of them at the end.
 */
const longest = [
  "conformance/values",
  "backend/opencl/codegen/vector_loops",
  "conformance/singular",
  "tensor/nn/fused_attention",
  "tensor/nn/recurrent",
  "tensor/same_bits",
  "examples/transformer",
  "tensor/graphs",
  "conformance/gradients",
  "tensor/ops/accuracy",
  "tensor/compile/compile_laws",
  "faults/training",
  "conformance/eager",
  "tensor/execution/lifetimes",
  "tensor/ops/sort_and_scan",
  "tensor/nn/further_losses",
  "examples/serve",
  "conformance/constants",
  "conformance/primitives",
  "examples/train",
  "backend/sharing/workers",
];

/** Signals arrive at certain times, grace windows end at others, a large tensor takes all memory, mpirun needs a core. */
const alone = [
  "signals/",
  "ffi/library/signals",
  "ffi/library/faults",
  "backend/lifecycle",
  "backend/opencl/runtime/programs",
  "distributed/lines",
  "tensor/execution/large",
  "distributed/",
];

/**
 * What is about layers above the kernels. PoCL compiles for it without optimizing, in half the time;
 * that the optimized kernels are right is what the tests of `conformance/`, `backend/` and the others
 * in `tensor/` hold.
 */
const aboveKernels = [
  "distributed/",
  "docs/",
  "examples/",
  "faults/",
  "tensor/amp/",
  "tensor/autograd/anomaly",
  "tensor/autograd/checkpoint",
  "tensor/compile/",
  "tensor/data/",
  "tensor/execution/lifetimes",
  "tensor/execution/reading_and_disposal",
  "tensor/io/",
  "tensor/nn/",
  "tensor/optim/",
];

/** Tests and folders, under `tests/`, that the suite treats in a way of their own: without "_test.ts". */
export const named: readonly string[] = [...longest, ...alone, ...aboveKernels];

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

function testJob(path: string): Job {
  const isOneOf = (parts: readonly string[]): boolean =>
    parts.some((part) => path.startsWith(`tests/${part}`));
  return {
    name: path,
    args: ["test", "-A", "--no-check", path],
    alone: isOneOf(alone),
    env: isOneOf(aboveKernels) ? quickly : {},
  };
}

function rank({ name }: Job): number {
  const at = longest.findIndex((part) => name === `tests/${part}_test.ts`);
  return at < 0 ? longest.length : at;
}

/** The whole suite, in the order in which to begin. */
export function suite(): Job[] {
  const files = filesBelow("tests", "_test.ts").map(testJob)
    .toSorted((a, b) => rank(a) - rank(b));
  // A folder stands for its modules only: the pages, whose examples have types too, are named.
  const pages = ["README.md", "CONTRIBUTING.md", ...filesBelow("examples/guide", ".md")];
  const args = ["check", "--quiet", "--doc", ".", ...pages];
  return [{ name: "types", args, alone: false, env: {} }, ...files];
}
