// Suite: first; takes long.
/**
 * A fault ends in an error, never in a wait: whatever function of OpenCL fails in a training step,
 * the step throws something that can be caught, the same program works afterwards, and nothing is
 * left behind. In a process of its own, because a wait inside the driver can only be ended with it.
 */
import { fileURLToPath } from "node:url";
import { assert, assertEquals } from "@std/assert";
import { driverOf } from "../../backend/opencl/runtime/driver.ts";
import { manager } from "../../mod.ts";
import { hasOpenCL, testOpenCL } from "../opencl.ts";

/** Some drivers do not wait for them on the device, and netcl makes none there. */
const usesUserEvents = hasOpenCL && driverOf(manager.default("cl").clDevice!).gates === "events";

/** Longer than any fault takes, on a machine that is busy with other things. */
const WATCHDOG_MS = 90_000;

interface Outcome {
  readonly begins?: string;
  readonly done?: boolean;
  readonly calls?: readonly string[];
  readonly kind: string;
  readonly call: string;
  readonly nth: number | "always";
  readonly error: string;
  readonly works: boolean;
  readonly left: readonly string[];
}

/** The lines of the program; ends it where it says nothing for too long. */
async function* outcomes(cache: string): AsyncGenerator<Outcome> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      "--no-check",
      fileURLToPath(new URL("training_matrix.ts", import.meta.url)),
    ],
    env: { NO_COLOR: "1", NETCL_CACHE_DIR: cache },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const errors = new Response(child.stderr).text();
  let last = "the start", rest = "", isHanging = false;
  const text = new TextDecoder();
  const kill = () => {
    isHanging = true;
    child.kill("SIGKILL");
  };
  let watchdog = setTimeout(kill, WATCHDOG_MS);
  try {
    for await (const chunk of child.stdout) {
      clearTimeout(watchdog);
      watchdog = setTimeout(kill, WATCHDOG_MS);
      const lines = (rest + text.decode(chunk, { stream: true })).split("\n");
      rest = lines.pop()!;
      for (const line of lines) {
        const outcome: Outcome = JSON.parse(line);
        last = outcome.begins ?? last;
        yield outcome;
      }
    }
  } finally {
    clearTimeout(watchdog);
  }
  const { code } = await child.status;
  assert(!isHanging, `${last}: nothing happened for ${WATCHDOG_MS / 1000} s`);
  assertEquals(code, 0, `${last}: ${await errors}`);
  await errors;
}

function complaint({ kind, call, nth, error, works, left }: Outcome): string | null {
  const where = `${kind} step, ${call}, call ${nth}`;
  const isClear = error === "passed" || error === "missed" ||
    error.startsWith(`OpenCLError: ${call} failed with CL_OUT_OF_RESOURCES`);
  if (!isClear) return `${where}: threw ${error}`;
  if (!works) return `${where}: the same step fails or computes something else afterwards`;
  return left.length > 0 ? `${where}: left behind ${left.join(", ")}` : null;
}

testOpenCL(
  "any function that a training step calls may fail, and the program goes on",
  async () => {
    const cache = await Deno.makeTempDir();
    const complaints: string[] = [];
    let calls: readonly string[] = [], thrown = 0, isDone = false;
    try {
      for await (const outcome of outcomes(cache)) {
        if (outcome.done) {
          isDone = true;
          calls = outcome.calls!;
        }
        if (outcome.call === undefined) continue;
        if (outcome.error.startsWith("OpenCLError")) thrown++;
        const what = complaint(outcome);
        if (what !== null) complaints.push(what);
      }
    } finally {
      await Deno.remove(cache, { recursive: true });
    }
    assertEquals(complaints, []);
    assert(isDone && thrown > 30, `${thrown} faults were seen`);
    for (
      const call of [
        "clBuildProgram",
        "clCreateKernel",
        "clEnqueueNDRangeKernel",
        ...(usesUserEvents ? ["clCreateUserEvent", "clSetUserEventStatus"] : []),
        "clEnqueueMarkerWithWaitList",
        "clFlush",
        "clGetEventInfo",
        "clEnqueueMapBuffer",
        "clEnqueueUnmapMemObject",
        "clReleaseMemObject",
      ]
    ) assert(calls.includes(call), `${call} is part of the matrix`);
  },
);
