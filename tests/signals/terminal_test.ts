/**
 * The same from a terminal's side: ^C typed at a pseudo-terminal (by `script` of util-linux), and
 * `nohup` itself.
 */
import { assertEquals, assertMatch } from "@std/assert";
import { atTerminal } from "../at_terminal.ts";
import { works } from "../machine.ts";
import { hasOpenCL } from "../opencl.ts";
import { plain } from "../plain.ts";

const ignore = Deno.build.os !== "linux" || !hasOpenCL || !works("script", "--version");
const program = new URL("program.ts", import.meta.url).href;
const deno = [Deno.execPath(), "run", "--quiet", "--no-check", "-A", program];
const CTRL_C = new Uint8Array([3]);

interface Typed {
  readonly code: number;
  /** The text on the terminal. */
  readonly screen: string;
  /** Milliseconds from the last key to the end. */
  readonly ms: number;
}

/** Runs the program in a state at a terminal and types ^C so many milliseconds after it is ready. */
async function typeAt(
  state: readonly string[],
  graceMs: number,
  ...times: number[]
): Promise<Typed> {
  const env = { NETCL_SIGINT_GRACE_MS: String(graceMs), ...plain };
  const child = atTerminal([...deno, ...state], { env }).spawn();
  const keys = child.stdin.getWriter();
  const timers: ReturnType<typeof setTimeout>[] = [];
  let screen = "", last = 0;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    screen += text;
    if (!screen.includes("ready") || timers.length > 0) continue;
    for (const atMs of times) {
      timers.push(setTimeout(() => {
        last = performance.now();
        void keys.write(CTRL_C);
      }, atMs));
    }
  }
  const { code } = await child.status;
  timers.forEach(clearTimeout);
  await keys.close().catch(() => "closed by the end of the program");
  return { code, screen, ms: performance.now() - last };
}

Deno.test("^C at a terminal lets the program save", { ignore }, async () => {
  const { code, screen } = await typeAt(["short", "800"], 10_000, 100);
  assertEquals(code, 130);
  assertMatch(screen, /ready[\s\S]*saved/);
});

Deno.test("a second ^C at a terminal ends the program at once, also while it is blocked", {
  ignore,
}, async () => {
  const { code, ms } = await typeAt(["blocked", "60000"], 10_000, 100, 300);
  assertEquals(code, 130);
  assertEquals(ms < 4000, true, `took ${ms} ms`);
});

Deno.test("a program under nohup survives the end of its terminal", { ignore }, async () => {
  const child = new Deno.Command("nohup", {
    args: [...deno, "long", "500"],
    env: plain,
    stdin: "null",
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let out = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    if (out === "") child.kill("SIGHUP");
    out += text;
  }
  assertEquals([(await child.status).code, out], [0, "ready\ndone\n"]);
});
