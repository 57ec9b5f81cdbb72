/** Signals on the built-in backend, with permissions and without. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { hasOpenCL } from "../opencl.ts";
import { describe, run, runAll, type RunOptions } from "./driver.ts";
import { SAVING_MS } from "./matrix.ts";

const GRACE = 700;
const program = new URL("builtin_program.ts", import.meta.url);

interface Case {
  readonly program: string;
  readonly title: string;
  /** The built-in backend by default. */
  readonly device?: string;
  readonly flags: readonly string[];
  readonly signal: Deno.Signal;
  readonly ignored?: boolean;
  readonly ending: string;
  readonly graceMs?: number;
  readonly said?: string;
  /** Its output on stderr; none by default. */
  readonly complains?: RegExp;
  readonly atLeast?: number;
}

const all = ["-A"], none = ["--no-prompt"];
/** Only there may netcl's own handler stand in front of Deno's. */
const isNative = Deno.build.os === "linux" && Deno.build.arch === "x86_64";

const cases: readonly Case[] = [
  ...[all, none, ["--allow-ffi"]].map((flags): Case => ({
    program: "idle",
    title: `nohup holds with ${flags}`,
    flags,
    signal: "SIGHUP",
    ignored: true,
    ending: "exit 0",
    said: "done",
  })),
  {
    program: "idle",
    title: "a background job that ignores SIGINT keeps ignoring it",
    flags: all,
    signal: "SIGINT",
    ignored: true,
    ending: "exit 0",
    said: "done",
  },
  ...(["SIGINT", "SIGTERM"] as const).flatMap((signal): Case[] => [
    {
      program: "busy",
      title: `${signal} ends a program that is busy in JavaScript`,
      flags: all,
      signal,
      ending: signal,
      atLeast: GRACE - 50,
    },
    {
      program: "busy",
      title: `${signal} ends such a program without any permission at once`,
      flags: none,
      signal,
      ending: signal,
    },
  ]).filter(() => isNative),
  {
    program: "computing",
    title: "a loop that reads is interrupted, and saves for as long as it takes",
    flags: all,
    signal: "SIGINT",
    graceMs: 8000, // a loop hears of a signal when the machine lets it
    ending: "exit 130",
    said: "saved",
    atLeast: SAVING_MS - 50,
  },
  ...(hasOpenCL ? ["cpu", "cl"] : ["cpu"]).flatMap((device): Case[] =>
    ["serving", "serving-with-handler"].map((name) => ({
      program: name,
      title: `${name} on ${device}: that the runtime catches what handlers throw does not keep it`,
      device,
      flags: all,
      signal: "SIGINT",
      ending: "SIGINT",
      ...(name === "serving" && { complains: /InterruptedError/ }), // Deno prints it
      graceMs: 2000, // queues of a busy machine finish
      atLeast: 1950,
    }))
  ),
  {
    program: "asking-for-the-name",
    title: "code that asks what the error is called saves for as long as it takes",
    flags: all,
    signal: "SIGINT",
    ending: "exit 130",
    said: "saved",
    atLeast: SAVING_MS - 50,
  },
  {
    program: "listening",
    title: "without any permission a listener of interruptSignal saves",
    flags: none,
    signal: "SIGINT",
    ending: "exit 130",
    said: "saved",
    atLeast: SAVING_MS - 50,
  },
];

function optionsOf(
  { program: name, device = "cpu", flags, signal, ignored, graceMs = GRACE }: Case,
): RunOptions {
  return {
    args: [name, device],
    flags,
    env: { NETCL_SIGINT_GRACE_MS: String(graceMs) },
    deliveries: [{ signal, atMs: 150 }],
    ...(ignored && { ignored: [signal] }),
  };
}

Deno.test("programs on the built-in backend end as they should", {
  ignore: Deno.build.os === "windows",
}, async (t) => {
  const endings = await runAll(cases.map((each) => () => run(program, optionsOf(each))));
  for (
    const [i, { title, ending, said = "", complains = /^$/, atLeast = 0 }] of cases.entries()
  ) {
    await t.step(title, () => {
      const { out, err, ms } = endings[i]!;
      const text = out.replace("ready\n", "").trim();
      assertEquals([describe(endings[i]!), text], [ending, said]);
      assertMatch(err, complains);
      assert(ms >= atLeast && ms < 15_000, `took ${ms} ms`);
    });
  }
});
