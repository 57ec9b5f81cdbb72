/**
 * Steps on Deno, Node and Bun, which npm installs in a folder: processor time, that of JavaScript's thread, and
 * time, in turns, on Linux.
 *
 *     deno run -A bench/runtimes/run.ts [--folder FOLDER] [--rounds N] [--warm-up N] [--only TEXT]
 *
 * Three processes live side by side, and one at a time is asked for some steps: what else the machine does meets
 * all of them. A figure is the median over the rounds, a ratio the median of the rounds' ratios to Deno. Threads
 * beside JavaScript's are the driver's, and compilers of JavaScript: Bun's compile for thousands of steps, while
 * JavaScript goes on. With --warm-up 400 an MLP is measured after that.
 */
import { createInterface } from "node:readline";
import { spawn } from "node:child_process";
import { tmpdir } from "node:os";
import { parseArgs } from "node:util";
import { installTools } from "../../tests/runtimes/tools.ts";
import { entries, root, transpile } from "../../tests/runtimes/transpile.ts";

const program = "bench/runtimes/steps.ts";

/** Steps of a round: some tenths of a second. */
const works = { "mlp": 200, "gpt": 50, "mlp, not compiled": 50, "gpt, not compiled": 10 };
type Times = readonly [processor: number, thread: number, elapsed: number];

/** A process that runs steps; one at a time answers. */
class Runner implements Disposable {
  readonly #process;
  readonly #lines: AsyncIterator<string>;

  constructor(command: string, args: readonly string[], cwd: string) {
    this.#process = spawn(command, args, {
      cwd,
      stdio: ["pipe", "pipe", "inherit"],
      env: { ...Deno.env.toObject(), NODE_NO_WARNINGS: "1", NETCL_DETERMINISTIC: "1" },
    });
    this.#lines = createInterface({ input: this.#process.stdout! })[Symbol.asyncIterator]();
  }

  /** Microseconds of a step. */
  async measure(work: string, steps: number): Promise<Times> {
    this.#process.stdin!.write(`${JSON.stringify([work, steps])}\n`);
    const { value, done } = await this.#lines.next();
    if (done) throw new Error(`A process ended at ${work}: what it printed is above`);
    return JSON.parse(value);
  }

  [Symbol.dispose](): void {
    this.#process.stdin!.end();
  }
}

/** The program as JavaScript, in a folder where it finds netcl by its name. */
async function makeProgram(folder: string, tools: Parameters<typeof transpile>[0]): Promise<void> {
  const config = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  await transpile(tools, { modules: [...Object.values<string>(config.exports), program], folder });
  const manifest = { name: config.name, ...entries(config.exports) };
  await Deno.writeTextFile(`${folder}/package.json`, JSON.stringify(manifest));
}

const median = (values: readonly number[]): number =>
  values.toSorted((a, b) => a - b)[values.length >> 1]!;

const { values: { folder, rounds, only, "warm-up": warmUp } } = parseArgs({
  args: Deno.args,
  options: {
    folder: { type: "string", default: `${tmpdir()}/netcl-runtimes` },
    rounds: { type: "string", default: "15" },
    // Rounds that are not counted: kernels are built, and functions compiled.
    "warm-up": { type: "string", default: "3" },
    only: { type: "string", default: "" },
  },
});
const tools = await installTools(folder);
const { node, bun } = tools.runtimes, js = program.replace(/ts$/, "js");
const place = await Deno.makeTempDir({ prefix: "netcl-steps" });
await makeProgram(place, tools);
{
  using deno = new Runner(Deno.execPath(), ["run", "-A", "--no-check", program], root);
  using onNode = new Runner(node, [js], place);
  using onBun = new Runner(bun, [js], place);
  const runners = { deno, node: onNode, bun: onBun };
  for (const [work, steps] of Object.entries(works).filter(([name]) => name.includes(only))) {
    const found = new Map<string, Times[]>(Object.keys(runners).map((name) => [name, []]));
    for (let round = -Number(warmUp); round < Number(rounds); round++) {
      for (const [name, runner] of Object.entries(runners)) {
        const times = await runner.measure(work, steps);
        if (round >= 0) found.get(name)!.push(times);
      }
    }
    for (const [name, times] of found) {
      const [processor, thread, elapsed] = ([0, 1, 2] as const).map((k) => {
        const ratio = median(times.map((own, round) => own[k] / found.get("deno")![round]![k]));
        return `${median(times.map((own) => own[k]))} us (${ratio.toFixed(2)})`;
      });
      console.log(
        `${work} on ${name}, a step, and of Deno's: ${processor} of processor time, ${thread} of ` +
          `them on JavaScript's thread, ${elapsed} of time`,
      );
    }
  }
}
await Deno.remove(place, { recursive: true });
