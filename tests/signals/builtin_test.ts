/** Signals on the built-in backend, with permissions and without. */
import { hasOpenCL } from "../opencl.ts";
import { type Case, row, testCases } from "./cases.ts";
import { GRACE, SAVING_MS } from "./matrix.ts";

type Part = Partial<Case>;

const none = ["--no-prompt"];
const sent = (signal: Deno.Signal): Part => ({ deliveries: [{ signal, atMs: 150 }] });
const from = (least: number): Part => ({ within: [least, 15_000] });

const sigint = sent("SIGINT");
const survives: Part = { ...from(0), said: "done" };
const saves: Part = { ...sigint, ...from(SAVING_MS - 50), said: "saved" };
/** Only there may netcl's own handler stand in front of Deno's. */
const isNative = Deno.build.os === "linux" && Deno.build.arch === "x86_64";

const cases: readonly Case[] = [
  ...[["-A"], none, ["--allow-ffi"]].map((flags) =>
    row("idle", `nohup holds with ${flags}`, "exit 0", sent("SIGHUP"), survives, {
      flags,
      ignored: ["SIGHUP"],
    })
  ),
  row(
    "idle",
    "a background job that ignores SIGINT keeps ignoring it",
    "exit 0",
    sigint,
    survives,
    {
      ignored: ["SIGINT"],
    },
  ),
  ...(["SIGINT", "SIGTERM"] as const).filter(() => isNative).flatMap((signal) => [
    row(
      "busy",
      `${signal} ends a program that is busy in JavaScript`,
      signal,
      sent(signal),
      from(GRACE - 50),
    ),
    row("busy", `${signal} ends such a program without any permission at once`, signal, from(0), {
      ...sent(signal),
      flags: none,
    }),
  ]),
  row(
    "computing",
    "a loop that reads is interrupted, and saves for as long as it takes",
    "exit 130",
    saves,
    { graceMs: 8000 }, // a loop hears of a signal when the machine lets it
  ),
  ...(hasOpenCL ? ["cpu", "cl"] : ["cpu"]).flatMap((device) =>
    ["serving", "serving-with-handler"].map((name) =>
      row(
        name,
        `${name} on ${device}: that the runtime catches what handlers throw does not keep it`,
        "SIGINT",
        sigint,
        from(1950),
        name === "serving" ? { complains: /InterruptedError/ } : {}, // Deno prints it
        { args: [device], graceMs: 2000 }, // queues of a busy machine finish
      )
    )
  ),
  row(
    "asking-for-the-name",
    "code that asks what the error is called saves for as long as it takes",
    "exit 130",
    saves,
  ),
  row(
    "listening",
    "without any permission a listener of interruptSignal saves",
    "exit 130",
    saves,
    {
      flags: none,
    },
  ),
];

testCases(
  "programs on the built-in backend end as they should",
  new URL("builtin_program.ts", import.meta.url),
  cases,
  { ignore: Deno.build.os === "windows" },
);
