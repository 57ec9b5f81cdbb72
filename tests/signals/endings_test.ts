import { assertEquals } from "@std/assert";
import { hasOpenCL } from "../opencl.ts";
import { describe, type Ending, run, runAll, type RunOptions } from "./driver.ts";
import { SAVING_MS } from "./matrix.ts";

/** Shorter than what the programs take to save. */
const GRACE = 700;
const ignore = Deno.build.os === "windows" || !hasOpenCL;
const program = new URL("endings_program.ts", import.meta.url);

interface Case {
  /** The argument of the program. */
  readonly program: string;
  readonly title: string;
  readonly options?: RunOptions;
  readonly graceMs?: number;
  readonly ending: string;
  /** Its output on stdout after "ready". */
  readonly said?: string;
  /** Its output on stderr; none by default. */
  readonly complains?: RegExp;
  /** Milliseconds from the last signal (or from ready) to the end. */
  readonly atLeast?: number;
  readonly atMost?: number;
}

function sigint(...times: number[]): RunOptions {
  return { deliveries: times.map((atMs) => ({ signal: "SIGINT", atMs })) };
}

/** Two signals that a listener of the user's own hears of: the second when it has told of the first. */
const toListener: RunOptions = {
  deliveries: [{ signal: "SIGINT", atMs: 100 }, { signal: "SIGINT", atMs: 0, after: "mine 1" }],
};

/** A second Ctrl+C, once the program said that it is ready for it. */
function sigintAgain(after: string): RunOptions {
  const signal = "SIGINT";
  return { deliveries: [{ signal, atMs: 100 }, { signal, atMs: 100, after }] };
}

const libOpenCL = `/usr/lib/${Deno.build.arch}-linux-gnu/libOpenCL.so.1`;
const isDebian = hasOpenCL && Deno.build.os === "linux" && exists(libOpenCL);

const cases: readonly Case[] = [
  { program: "end", title: "a normal end finishes the queues", ending: "exit 0", said: "finished" },
  { program: "exit", title: "Deno.exit finishes the queues", ending: "exit 3", said: "finished" },
  {
    program: "throw",
    title: "an uncaught error finishes the queues",
    ending: "exit 1",
    complains: /boom/,
    graceMs: 10_000,
    said: "finished",
  },
  {
    program: "throw-later",
    title: "an uncaught error in a timer finishes the queues",
    ending: "exit 1",
    complains: /boom/,
    graceMs: 10_000,
    said: "finished",
  },
  {
    program: "throw-long",
    title: "an uncaught error waits no longer than the grace window",
    ending: "exit 1",
    complains: /boom/,
    said: "unfinished",
    atLeast: GRACE - 50,
    atMost: GRACE + 6000,
  },
  {
    program: "uncaught",
    title: "an uncaught InterruptedError ends as Ctrl+C does, without a stack trace",
    options: sigint(100),
    graceMs: 10_000,
    ending: "SIGINT",
  },
  {
    program: "uncaught-beside-saving",
    title: "an interrupted call that nobody catches does not stop another one's saving",
    options: sigint(100),
    graceMs: 10_000,
    ending: "exit 130",
    said: "saved",
  },
  {
    program: "own-listener",
    title: "with NETCL_SIGNALS=0 the user's listener gets every signal",
    options: { ...toListener, env: { NETCL_SIGNALS: "0" } },
    ending: "exit 7",
    said: "mine 1\nmine 2",
  },
  {
    program: "switched-off",
    title: "with configureSignals({ enabled: false }) as well",
    options: toListener,
    ending: "exit 7",
    said: "mine 1\nmine 2",
  },
  {
    program: "own-listener",
    title: "a user's listener beside ours gets every signal",
    options: toListener,
    graceMs: 10_000,
    ending: "exit 7",
    said: "mine 1\nmine 2",
  },
  {
    program: "rearm",
    title: "after rearm() Ctrl+C is a first one again",
    options: sigintAgain("true false"),
    graceMs: 10_000,
    ending: "exit 0",
    said: "true false\nagain true",
  },
  {
    program: "rearm-sync",
    title: "after rearm() Ctrl+C is a first one again, also for synchronous waits",
    options: sigintAgain("false"),
    graceMs: 10_000,
    ending: "exit 0",
    said: "false\nagain true",
  },
  {
    program: "saving-listener",
    title: "a listener of interruptSignal can read from the device",
    options: sigint(100),
    ending: "exit 130",
    said: "saved 42",
  },
  {
    program: "saving-after-catch",
    title: "code that caught the InterruptedError can read from the device",
    options: sigint(100),
    graceMs: 10_000,
    ending: "exit 0",
    said: "saved 42",
  },
  {
    program: "launching-loop",
    title: "a loop that only launches is interrupted",
    options: sigint(300),
    graceMs: 10_000,
    ending: "exit 0",
    said: "saved",
  },
  {
    program: "launching-loop-sync",
    title: "a synchronous loop that only launches is interrupted",
    options: sigint(300),
    graceMs: 10_000,
    ending: "exit 0",
    said: "saved",
  },
  {
    program: "swallowing-loop-sync",
    title:
      "a synchronous loop that catches everything and asks nothing ends after the grace window",
    options: sigint(300),
    ending: "SIGINT",
    said: "swallowed",
    atLeast: GRACE - 50,
  },
  {
    program: "shutdown",
    title: "a shutdown that a hung device keeps waiting ends by Ctrl+C after the grace window",
    options: sigint(100),
    ending: "exit 130",
    atLeast: GRACE - 50,
    atMost: GRACE + 6000,
  },
  {
    program: "shutdown",
    title: "... and by a second one at once",
    options: sigint(100, 300),
    graceMs: 10_000,
    ending: "SIGINT",
    atMost: 4000,
  },
  {
    program: "survive",
    title: "a background job that ignores SIGINT keeps ignoring it",
    options: { ...sigint(100), ignored: ["SIGINT"] },
    ending: "exit 0",
    said: "survived",
  },
  {
    program: "saves-beside-uncaught",
    title: "an interrupted call that nobody catches does not end another one's saving, ever",
    options: sigint(100),
    ending: "exit 130",
    said: "saved",
    atLeast: SAVING_MS - 50,
  },
  {
    program: "uncaught-all",
    title: "several interrupted calls behind one error that nobody catches end the program",
    options: sigint(100),
    ending: "SIGINT",
    atLeast: GRACE - 50,
  },
  {
    program: "saving-with-saveFile",
    title: "a save that is under way is finished before Ctrl+C ends the program",
    options: sigint(100),
    ending: "SIGINT",
    said: "saved 10",
    atLeast: SAVING_MS - 150,
  },
  {
    program: "own-listener-saving",
    title: "a program with a listener of its own is not ended while it saves",
    options: sigint(100),
    ending: "exit 7",
    said: "saved",
    atLeast: SAVING_MS - 50,
  },
  {
    program: "busy-then-saving",
    title: "a program that uses interruptSignal may be busy for as long as it likes",
    options: sigint(100),
    ending: "exit 130",
    said: "saved",
    atLeast: SAVING_MS - 150,
  },
  {
    program: "building",
    title: "what netcl itself takes long for does not end the program",
    options: sigint(100),
    ending: "exit 130",
    said: "saved",
    atLeast: SAVING_MS - 150,
  },
  {
    program: "watchdog-loop",
    title: "the watchdog ends a blocked program after the grace window",
    options: sigint(100),
    ending: "exit 130",
    atLeast: GRACE - 50,
    atMost: GRACE + 6000,
  },
  {
    program: "watchdog-loop",
    title: "with the watchdog a second Ctrl+C ends a blocked program at once",
    options: sigint(100, 300),
    graceMs: 10_000,
    ending: "SIGINT",
    atMost: 4000,
  },
  { program: "watchdog-over", title: "a watchdog can be ended", ending: "exit 0" },
  {
    program: "long",
    title: "without libc a device that stays busy is left by SIGKILL",
    options: { ...sigint(100), flags: ["--allow-env", "--allow-read", `--allow-ffi=${libOpenCL}`] },
    ending: "SIGKILL",
    atLeast: GRACE - 50,
  },
];

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

function faults(ending: Ending, expected: Case): string[] {
  const { said = "", complains = /^$/, atLeast = 0, atMost = 10_000 } = expected;
  const wrong: string[] = [];
  if (describe(ending) !== expected.ending) wrong.push(`ended with ${describe(ending)}`);
  const text = ending.out.replace("ready\n", "").trim();
  if (text !== said) wrong.push(`said "${text}"`);
  if (!complains.test(ending.err)) wrong.push(`wrote to stderr: ${ending.err}`);
  if (ending.ms < atLeast || ending.ms > atMost) wrong.push(`took ${Math.round(ending.ms)} ms`);
  return wrong;
}

function runCase({ program: name, options = {}, graceMs = GRACE }: Case): Promise<Ending> {
  const env = { NETCL_SIGINT_GRACE_MS: String(graceMs), ...options.env };
  return run(program, { ...options, args: [name], env });
}

Deno.test("programs end as they should", { ignore }, async (t) => {
  const runnable = cases.filter(({ options }) => !options?.flags || isDebian);
  const endings = await runAll(runnable.map((each) => () => runCase(each)));
  for (const [i, each] of runnable.entries()) {
    await t.step(each.title, () => assertEquals(faults(endings[i]!, each), []));
  }
});

Deno.test(
  "the grace window is 3 seconds unless something else is asked for",
  { ignore },
  async () => {
    const ending = await run(program, { args: ["long"], ...sigint(100) });
    assertEquals(describe(ending), "exit 130");
    assertEquals(ending.ms > 2900 && ending.ms < 8000, true, `took ${ending.ms} ms`);
  },
);

Deno.test("a wrong value of a variable is told when the queue is made", { ignore }, async () => {
  const wrong = { NETCL_SIGNALS: "yes", NETCL_SIGINT_GRACE_MS: "3 s" };
  const endings = await runAll(
    Object.entries(wrong).map(([variable, value]) => () =>
      run(program, { args: ["end"], env: { [variable]: value } })
    ),
  );
  assertEquals(endings.map((ending) => ending.code), [1, 1]);
  assertEquals(/NETCL_SIGNALS is "yes": write 0 or 1/.test(endings[0]!.err), true);
  assertEquals(/NETCL_SIGINT_GRACE_MS is "3 s": write a whole/.test(endings[1]!.err), true);
});
