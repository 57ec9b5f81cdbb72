/**
 * Microseconds on the device of kernels whose work-items share rows, of several trees of the source in
 * turn: `deno run -A bench/row_kernels.ts BEFORE_TREE .` prints both and the ratio, before to after.
 */
import { pathToFileURL } from "node:url";
import { resolve } from "node:path";

type Netcl = typeof import("../mod.ts");
type Tensor = import("../mod.ts").Tensor;

const ROUNDS = 7, CALLS = 10;

type Case = readonly [name: string, shape: number[], of: (x: Tensor) => Tensor];

const normalized = (x: Tensor): Tensor => {
  const centred = x.sub(x.mean(1, { keepDims: true }));
  return centred.mul(centred.square().mean(1, { keepDims: true }).add(1e-5).rsqrt());
};
const rms = (x: Tensor): Tensor => x.mul(x.square().mean(1, { keepDims: true }).add(1e-5).rsqrt());

const cases: readonly Case[] = [
  ["softmax", [65_536, 128], (x) => x.softmax(1)],
  ["softmax", [4096, 4096], (x) => x.softmax(1)],
  ["softmax, odd", [16_384, 1001], (x) => x.softmax(1)],
  ["softmax, long", [512, 50_257], (x) => x.softmax(1)],
  ["layer norm", [16_384, 768], normalized],
  ["RMS norm", [4096, 4096], rms],
  ["log-sum-exp", [4096, 4096], (x) => x.logSumExp(1)],
  ["sum of rows", [4096, 8192], (x) => x.sum(1)],
  ["sum of long rows", [256, 100_000], (x) => x.sum(1)],
  ["places", [4096, 5000], (x) => x.argmax(1)],
  ["sum of columns", [16_384, 384], (x) => x.sum(0)],
  ["sum of columns", [16_384, 1536], (x) => x.sum(0)],
];

/** The median of the times of a case's kernels, in microseconds; what is not kernels does not count. */
class Timer {
  readonly #netcl: Netcl;
  readonly #x: Tensor;
  readonly #of: Case[2];
  readonly #times: number[] = [];

  constructor(netcl: Netcl, [, shape, of]: Case) {
    this.#netcl = netcl;
    this.#of = of;
    this.#x = netcl.Tensor.randn(shape).realize();
  }

  async round(): Promise<void> {
    const { profiler, noGrad } = this.#netcl;
    {
      using _trace = profiler.trace();
      for (let k = 0; k < CALLS; k++) {
        using y = noGrad(() => this.#of(this.#x).realize());
        if (k === CALLS - 1) await y.toHost();
      }
    }
    const kernels = profiler.rows().filter(({ lane }) => lane === "kernel");
    this.#times.push(kernels.reduce((sum, { total }) => sum + total, 0) / CALLS);
  }

  end(): number {
    this.#x.dispose();
    return this.#times.slice(1).sort((a, b) => a - b)[(ROUNDS - 1) >> 1]!;
  }
}

const trees = Deno.args.length > 0 ? Deno.args : ["."];
const modules: Netcl[] = await Promise.all(
  trees.map((tree) => import(pathToFileURL(resolve(tree, "mod.ts")).href)),
);
const ratios: number[] = [];
for (const each of cases) {
  const timers = modules.map((netcl) => new Timer(netcl, each));
  for (let k = 0; k < ROUNDS; k++) for (const timer of timers) await timer.round();
  const times = timers.map((timer) => timer.end()), ratio = times[0]! / times.at(-1)!;
  ratios.push(ratio);
  const texts = times.map((us) => us.toFixed(1).padStart(9)).join("");
  console.log(`${`${each[0]} ${each[1].join(" x ")}`.padEnd(34)}${texts}  ${ratio.toFixed(3)}`);
}
const mean = Math.exp(ratios.reduce((sum, r) => sum + Math.log(r), 0) / ratios.length);
console.log(`geometric mean ${mean.toFixed(3)}`);
