/**
 * Small random programs give what PyTorch gives, in every way to compute them: `programs.bin.gz` has them,
 * `make_fixtures.py` makes it. `deno task fuzz` tries new ones.
 */
import { fileURLToPath } from "node:url";
import { assert, assertEquals, assertMatch } from "@std/assert";
import { compile, profiler, realizeAll, type Tensor, withDevice } from "../../mod.ts";
import { waitForCompiledKernels } from "../../backend/internal.ts";
import { isPoCL, testOnCPU, testOpenCL } from "../opencl.ts";
import type { Graph } from "../tensor/graphs/graph.ts";
import { describe as describeGraph, fuzz, places } from "./fuzz.ts";
import { describe, difference, follow, leavesOf, type Program, readFixtures } from "./programs.ts";
import { runDeno } from "../run_deno.ts";

const { programs, numbers } = await readFixtures();

/** Some of the programs, spread over all of them. */
function every(n: number, offset = 0): Program[] {
  return programs.filter((_, k) => k % n === offset);
}

function faults(
  some: readonly Program[],
  run: (program: Program, leaves: readonly Tensor[]) => Tensor[],
): string[] {
  return some.flatMap((program) => {
    const text = difference(program, run(program, leavesOf(program, numbers)), numbers);
    return text === null ? [] : [`${text}\n  in ${describe(program)}`];
  });
}

testOnCPU(
  "random programs give what PyTorch gives (cpu)",
  () => assertEquals(faults(every(3), follow), []),
);

Deno.test("compiled random programs give it in every call (cpu)", () => {
  const run = (program: Program, leaves: readonly Tensor[]): Tensor[] => {
    const call = compile((...given: Tensor[]) => {
      for (const leaf of given) leaf.grad = null;
      return follow(program, given);
    });
    call(...leaves);
    return call(...leaves);
  };
  withDevice("cpu", () => assertEquals(faults(every(20, 1), run), []));
});

testOpenCL("random programs give it in one schedule (cl)", () => {
  withDevice("cl", () => {
    const some = every(150, 2).map((program) => ({
      program,
      found: follow(program, leavesOf(program, numbers)),
    }));
    realizeAll(some.flatMap(({ found }) => found));
    const wrong = some.flatMap(({ program, found }) => difference(program, found, numbers) ?? []);
    assertEquals(wrong, []);
  });
});

Deno.test("random programs give it before anything is compiled (cl)", { ignore: !isPoCL }, () => {
  waitForCompiledKernels(false);
  const trace = profiler.trace();
  try {
    withDevice("cl", () => assertEquals(faults(every(20, 5), follow), []));
  } finally {
    trace[Symbol.dispose]();
    waitForCompiledKernels(true);
  }
  assertMatch(profiler.table(), /\(built-in\)/);
});

Deno.test("random programs give it with NETCL_EAGER=1 (cpu)", async () => {
  const script = fileURLToPath(new URL("eager.ts", import.meta.url));
  const { success, out, err } = await runDeno(["run", "--allow-all", "--no-check", script], {
    env: { NETCL_EAGER: "1" },
  });
  assert(success, out + err);
  assertMatch(out, /^[1-9]\d* programs\n$/);
});

Deno.test("the comparison finds a wrong number, a wrong shape and a missing NaN", () => {
  const program = programs.find(({ values }) =>
    values.every(([, shape, dtype]) => dtype === "float32" && shape[0] === 4)
  );
  withDevice("cpu", () => {
    const found = follow(program!, leavesOf(program!, numbers));
    assertEquals(difference(program!, found, numbers), null);
    const wrong = [
      (t: Tensor) => t.cast("float32").add(1).cast(t.dtype),
      (t: Tensor) => t.unsqueeze(0),
      (t: Tensor) => t.cast("float32").mul(NaN),
    ];
    for (const change of wrong) {
      assert(difference(program!, found.map(change), numbers) !== null, `${change}`);
    }
  });
});

Deno.test("fuzzing makes a failing graph small, and says which it is", () => {
  const isWrong = ({ steps }: Graph): boolean => steps.some(({ op }) => op === "tanh");
  const { tried, failure } = fuzz(30, 1, (graph) => isWrong(graph) ? "wrong" : null);
  assert(tried > 1);
  assertEquals(failure!.fault, `${places[0]![1]} on cpu: wrong`);
  assertEquals(failure!.graph.steps.map(({ op }) => op), ["tanh"]);
  assertMatch(describeGraph(failure!.graph), /= tanh\(t\d, t\d; /);
});
