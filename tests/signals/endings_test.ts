import { assertEquals } from "@std/assert";
import { exists } from "../machine.ts";
import { hasOpenCL } from "../opencl.ts";
import { type Case, row, testCases } from "./cases.ts";
import { describe, type Expected, run, runAll } from "./driver.ts";
import { AFTER_GRACE, GRACE, SAVING_MS } from "./matrix.ts";

const ignore = Deno.build.os === "windows" || !hasOpenCL;
const program = new URL("endings_program.ts", import.meta.url);

type Part = Partial<Case>;

const sigint = (...times: number[]): Part => ({
  deliveries: times.map((atMs) => ({ signal: "SIGINT", atMs })),
});

/** A second Ctrl+C so much later than the program has said something. */
const again = (after: string, atMs: number): Part => ({
  deliveries: [{ signal: "SIGINT", atMs: 100 }, { signal: "SIGINT", atMs, after }],
});

const said = (...lines: string[]): Part => ({ said: lines.join("\n") });
const within = (...within: Expected["within"] & object): Part => ({ within });

const ample: Part = { graceMs: 10_000 }, boom: Part = { complains: /boom/ };
const once = sigint(100), twice: Part = { ...sigint(100, 300), ...ample, within: [0, 4000] };
const amply: Part = { ...once, ...ample };
const afterGrace: Part = { within: AFTER_GRACE };
const fromGrace = within(GRACE - 50, 10_000);
const saves: Part = { ...once, ...said("saved") };
/** It saves from the signal on, or has been at it since it began. */
const saving = within(SAVING_MS - 50, 10_000), savingBefore = within(SAVING_MS - 150, 10_000);
/** Signals that a listener of the user's own hears of: the second when it has told of the first. */
const listening: Part = { ...again("mine 1", 0), ...said("mine 1", "mine 2") };

const libOpenCL = `/usr/lib/${Deno.build.arch}-linux-gnu/libOpenCL.so.1`;
const isDebian = hasOpenCL && Deno.build.os === "linux" && exists(libOpenCL);
const withoutLibc = ["--allow-env", "--allow-read", `--allow-ffi=${libOpenCL}`];

const cases: readonly Case[] = [
  row("end", "a normal end finishes the queues", "exit 0", said("finished")),
  row("exit", "Deno.exit finishes the queues", "exit 3", said("finished")),
  row("throw", "an uncaught error finishes the queues", "exit 1", boom, ample, said("finished")),
  row(
    "throw-later",
    "an uncaught error in a timer finishes the queues",
    "exit 1",
    boom,
    ample,
    said("finished"),
  ),
  row(
    "throw-long",
    "an uncaught error waits no longer than the grace window",
    "exit 1",
    boom,
    said("unfinished"),
    afterGrace,
  ),
  row(
    "uncaught",
    "an uncaught InterruptedError ends as Ctrl+C does, without a stack trace",
    "SIGINT",
    amply,
  ),
  row(
    "uncaught-beside-saving",
    "an interrupted call that nobody catches does not stop another one's saving",
    "exit 130",
    saves,
    ample,
  ),
  row("own-listener", "with NETCL_SIGNALS=0 the user's listener gets every signal", "exit 7", {
    ...listening,
    env: { NETCL_SIGNALS: "0" },
  }),
  row("switched-off", "with configureSignals({ enabled: false }) as well", "exit 7", listening),
  row(
    "own-listener",
    "a user's listener beside ours gets every signal",
    "exit 7",
    listening,
    ample,
  ),
  row(
    "rearm",
    "after rearm() Ctrl+C is a first one again",
    "exit 0",
    again("true false", 100),
    ample,
    said("true false", "again true"),
  ),
  row(
    "rearm-sync",
    "after rearm() Ctrl+C is a first one again, also for synchronous waits",
    "exit 0",
    again("false", 100),
    ample,
    said("false", "again true"),
  ),
  row(
    "saving-listener",
    "a listener of interruptSignal can read from the device",
    "exit 130",
    once,
    said("saved 42"),
  ),
  row(
    "saving-after-catch",
    "code that caught the InterruptedError can read from the device",
    "exit 0",
    amply,
    said("saved 42"),
  ),
  ...["launching-loop", "launching-loop-sync"].map((loop) =>
    row(
      loop,
      `a loop that only launches is interrupted: ${loop}`,
      "exit 0",
      sigint(300),
      ample,
      said("saved"),
    )
  ),
  row(
    "swallowing-loop-sync",
    "a synchronous loop that catches everything and asks nothing ends after the grace window",
    "SIGINT",
    sigint(300),
    said("swallowed"),
    fromGrace,
  ),
  row(
    "shutdown",
    "a shutdown that a hung device keeps waiting ends by Ctrl+C after the grace window",
    "exit 130",
    once,
    afterGrace,
  ),
  row("shutdown", "... and by a second one at once", "SIGINT", twice),
  row("survive", "a background job that ignores SIGINT keeps ignoring it", "exit 0", {
    ...once,
    ignored: ["SIGINT"],
    said: "survived",
  }),
  row(
    "saves-beside-uncaught",
    "an interrupted call that nobody catches does not end another one's saving, ever",
    "exit 130",
    saves,
    saving,
  ),
  row(
    "uncaught-all",
    "several interrupted calls behind one error that nobody catches end the program",
    "SIGINT",
    once,
    fromGrace,
  ),
  row(
    "saving-with-saveFile",
    "a save that is under way is finished before Ctrl+C ends the program",
    "SIGINT",
    once,
    said("saved 10"),
    savingBefore,
  ),
  row(
    "own-listener-saving",
    "a program with a listener of its own is not ended while it saves",
    "exit 7",
    saves,
    saving,
  ),
  row(
    "busy-then-saving",
    "a program that uses interruptSignal may be busy for as long as it likes",
    "exit 130",
    saves,
    savingBefore,
  ),
  row(
    "building",
    "what netcl itself takes long for does not end the program",
    "exit 130",
    saves,
    savingBefore,
  ),
  row(
    "watchdog-loop",
    "the watchdog ends a blocked program after the grace window",
    "exit 130",
    once,
    afterGrace,
  ),
  row(
    "watchdog-loop",
    "with the watchdog a second Ctrl+C ends a blocked program at once",
    "SIGINT",
    twice,
  ),
  row("watchdog-over", "a watchdog can be ended", "exit 0"),
  ...isDebian
    ? [
      row(
        "long",
        "without libc a device that stays busy is left by SIGKILL",
        "SIGKILL",
        once,
        fromGrace,
        { flags: withoutLibc },
      ),
    ]
    : [],
];

testCases("programs end as they should", program, cases, { ignore });

Deno.test(
  "the grace window is 3 seconds unless something else is asked for",
  { ignore },
  async () => {
    const ending = await run(program, { args: ["long"], ...once });
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
