/** The tier that computes a launch, with a compiler that takes as long as the test says. */
import { assertEquals, assertThrows } from "@std/assert";
import type { Block, Launch } from "../../../../backend/execution/backend.ts";
import { isDeterministic, waitForCompiledKernels } from "../../../../backend/internal.ts";
import type { Program } from "../../../../ffi/mod.ts";
import type {
  Compilation,
  Compiler,
} from "../../../../backend/opencl/tiers/background_compiler.ts";
import type { CompileJob } from "../../../../backend/opencl/tiers/compile_job.ts";
import {
  type DeferredText,
  type ProgramStore,
  TieredLaunch,
  Tiers,
} from "../../../../backend/opencl/tiers/tiers.ts";

type State = Compilation["state"];

/** A compiler that is through when the test says so. */
class SlowCompiler implements Compiler {
  readonly told: CompileJob[] = [];
  readonly states: State[] = [];
  waits = 0;

  compile(_program: Program, job: CompileJob): Compilation {
    const at = this.told.push(job) - 1, states = this.states;
    states[at] = "compiling";
    return {
      get state() {
        return states[at]!;
      },
      wait: () => {
        this.waits++;
        states[at] = "built";
      },
    };
  }

  dispose(): void {}
}

/** Compiled kernels, and what was built at once. */
class Store implements ProgramStore {
  readonly built = new Set<string>();
  readonly builtHere: string[] = [];
  readonly released: string[] = [];

  has(source: string): boolean {
    return this.built.has(source);
  }

  adopt({ kernels }: DeferredText): void {
    for (const source of kernels.keys()) this.built.add(source);
  }

  buildDeferred(text: DeferredText): void {
    this.builtHere.push(...text.kernels.keys());
    this.adopt(text);
  }
}

/** Two tiers that note which of them computes. */
class Bench {
  readonly compiler = new SlowCompiler();
  readonly store = new Store();
  readonly ran: string[] = [];
  /** Milliseconds of a run on the host. */
  hostMs = 0;
  readonly #tiers = new Tiers(
    { kernel: () => null, takeError: () => null, lend: () => null, takeBack: () => {} },
    this.store,
    this.compiler,
    { waitFor: () => {}, arrayOf: () => undefined, read: () => {}, write: () => {} },
  );

  /** Leaves kernels of one plan to the compiler, each as a program. */
  defer(...sources: string[]): void {
    this.#tiers.defer(sources.map((source) => {
      const release = (): void => void this.store.released.push(source);
      return {
        program: { release } as unknown as Program,
        text: source,
        options: "",
        kernels: new Map([[source, `name_of_${source}`]]),
      };
    }));
  }

  launch(source: string, failure: Error | null = null): Launch {
    return new TieredLaunch(this.#tiers, this.store, {
      label: source,
      bytes: 0,
      baseline: {
        run: () => {
          this.ran.push(`host ${source}`);
          milliseconds += this.hostMs;
        },
      },
      steps: [{
        source,
        warm: (name, bytes) => ({ name, global: [], local: [], args: [...bytes] }),
      }],
      compiled: () => {
        this.#tiers.finish([source]);
        if (!this.store.has(source) && failure) throw failure;
        this.store.built.add(source);
        const run = (): void => void this.ran.push(`device ${source}`);
        return { name: source, source, bytes: 0, run };
      },
    });
  }

  /** The kernels that ran since the last call. */
  take(): string[] {
    return this.ran.splice(0);
  }
}

/** Two kernels of plans of their own. */
function two(): { bench: Bench; a: Launch; b: Launch } {
  const bench = new Bench();
  bench.defer("a");
  bench.defer("b");
  return { bench, a: bench.launch("a"), b: bench.launch("b") };
}

const run = (launch: Launch): void => launch.run([], []);
const block = (nbytes: number): Block => ({ nbytes }) as Block;

/** Time of the tests: only runs on the host take any. */
let milliseconds = 0;

/** A test in which values may come from either tier. */
function test(name: string, fn: () => void): void {
  Deno.test(name, () => {
    const before = isDeterministic(), { now } = performance;
    performance.now = () => milliseconds;
    waitForCompiledKernels(false);
    try {
      fn();
    } finally {
      performance.now = now;
      waitForCompiledKernels(before);
    }
  });
}

test("the host computes until the kernel is compiled, and nothing waits", () => {
  const bench = new Bench();
  bench.defer("a");
  const launch = bench.launch("a"), run = () => launch.run([block(4)], [block(8)]);
  run();
  assertEquals(bench.compiler.told, [], "what runs once is not worth compiling");
  run();
  assertEquals(
    bench.compiler.told.map(({ launches }) => launches.map(({ name, args }) => [name, args])),
    [[["name_of_a", [4, 8]]]],
  );
  run();
  assertEquals(bench.take(), ["host a", "host a", "host a"]);
  bench.compiler.states[0] = "built";
  run();
  run();
  assertEquals(bench.take(), ["device a", "device a"]);
  assertEquals([bench.compiler.waits, bench.store.builtHere], [0, []]);
});

test("while the compiler is at work the host computes what is compiled, too", () => {
  const { bench, a, b } = two();
  [a, a].forEach(run);
  bench.compiler.states[0] = "built";
  [a, b, b, a].forEach(run);
  assertEquals(bench.take(), ["host a", "host a", "device a", "host b", "host b", "host a"]);
  bench.compiler.states[1] = "built";
  [a, b].forEach(run);
  assertEquals(bench.take(), ["device a", "device b"]);
});

test("TieredLaunch: while another process compiles, the device computes what is compiled", () => {
  const { bench, a, b } = two();
  [a, a].forEach(run);
  bench.compiler.states[0] = "built";
  [a, b, b].forEach(run);
  bench.compiler.states[1] = "waiting";
  [a, b].forEach(run);
  assertEquals(bench.take(), [
    ...["host a", "host a", "device a", "host b", "host b"],
    ...["device a", "host b"],
  ]);
});

test("Tiers: of a plan that is run again what took most time on the host is compiled first, one at a time", () => {
  const bench = new Bench(), sources = ["a", "b", "c", "d"];
  bench.defer(...sources);
  /** A step: one launch of a, three of b, a long one of c. */
  const launches = [...["a", "b", "b", "b", "c"]].map((source) => bench.launch(source));
  const step = (): void =>
    launches.forEach((launch, k) => {
      bench.hostMs = [4, 4, 4, 4, 40][k]!;
      launch.run([], []);
    });
  const told = (): string[] => bench.compiler.told.map(({ text }) => text);
  step();
  assertEquals(told(), []);
  for (const expected of ["c", "b", "a"]) {
    step();
    assertEquals(told().at(-1), expected);
    step();
    assertEquals(told().at(-1), expected, "the compiler has one at a time");
    bench.compiler.states[told().length - 1] = "built";
  }
  step();
  step();
  assertEquals(told(), ["c", "b", "a"], "what never ran is not compiled");
});

test("launches of other shapes that share a kernel have it compiled when they took long enough", () => {
  const bench = new Bench();
  bench.defer("a");
  for (let k = 0; k < 2; k++) bench.launch("a").run([], []);
  assertEquals(bench.compiler.told.length, 0);
  bench.hostMs = 120;
  bench.launch("a").run([], []);
  assertEquals(bench.compiler.told.length, 1);
});

test("a kernel that does not compile is built by who needs it, who gets the error", () => {
  const bench = new Bench();
  bench.defer("a");
  const launch = bench.launch("a", new Error("no such thing as a")), run = () => launch.run([], []);
  run();
  run();
  bench.compiler.states[0] = "failed";
  assertThrows(run, Error, "no such thing as a");
  assertThrows(run, Error, "no such thing as a");
  assertEquals([bench.take(), bench.store.released], [["host a", "host a"], ["a"]]);
});

test("deterministic values wait for the compiled kernel, whether its compilation has begun or not", () => {
  const { bench, a, b } = two();
  [a, a, b].forEach(run);
  waitForCompiledKernels(true);
  [a, b, a].forEach(run);
  assertEquals(bench.take(), ["host a", "host a", "host b", "device a", "device b", "device a"]);
  assertEquals([bench.compiler.waits, bench.store.builtHere], [1, ["b"]]);
});

test("large operands are not copied: the kernel is compiled first", () => {
  const bench = new Bench();
  bench.defer("a");
  const large = block(2 ** 28);
  bench.launch("a").run([large], [block(4)]);
  assertEquals(bench.take(), ["device a"]);
});
