// Suite: waits; signals arrive at certain times.
import { assertEquals } from "@std/assert";
import { denoArgs } from "../child.ts";
import { hasOpenCL } from "../fixture.ts";
import { plain } from "../../plain.ts";

const ignore = !hasOpenCL || Deno.build.os === "windows";

/** True where what started the tests ignores a signal, as a shell does for jobs in the background. */
function isIgnored(signal: bigint): boolean {
  const [, ignored] = /SigIgn:\s*(\w+)/.exec(Deno.readTextFileSync("/proc/self/status")) ?? [];
  return (BigInt(`0x${ignored}`) >> (signal - 1n) & 1n) === 1n;
}

/**
 * Runs a child under a shell line, sends it signals as it names them, and returns what it printed.
 */
async function converse(
  shell: string,
  source: string,
): Promise<{ out: string; status: Deno.CommandStatus }> {
  const child = new Deno.Command("sh", {
    args: ["-c", `${shell} exec "$0" "$@"`, Deno.execPath(), ...denoArgs(source)],
    env: plain,
    stdout: "piped",
    stderr: "null",
  }).spawn();
  let out = "";
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    out += text;
    const [, signal] = /send (\w+)\n$/.exec(text) ?? [];
    if (signal) child.kill(signal as Deno.Signal);
  }
  return { out, status: await child.status };
}

Deno.test("a listener added after the driver was loaded still runs", { ignore }, async () => {
  const source = `
      import { ignoredSignals, platforms } from "@netcl/netcl/ffi";
      platforms()[0].devices();
      console.log("ignored:", ignoredSignals().join());
      const handled = Promise.withResolvers();
      Deno.addSignalListener("SIGINT", handled.resolve);
      const alive = setInterval(() => {}, 1000);
      console.log("send SIGINT");
      await handled.promise;
      clearInterval(alive);
      console.log("handled");
      Deno.exit(0);`;
  const { out, status } = await converse("", source);
  assertEquals(out, "ignored: \nsend SIGINT\nhandled\n");
  assertEquals(status.code, 0);
});

Deno.test("without a listener a signal ends the program as ever", { ignore }, async () => {
  const source = `
      import { platforms } from "@netcl/netcl/ffi";
      platforms()[0].devices();
      console.log("send SIGTERM");
      setInterval(() => {}, 1000);`;
  assertEquals((await converse("", source)).status.signal, "SIGTERM");
});

Deno.test("a signal ignored at the start, as by nohup, stays ignored", { ignore }, async () => {
  const source = `
      import { ignoredSignals, platforms } from "@netcl/netcl/ffi";
      platforms()[0].devices();
      console.log("ignored:", ignoredSignals().join());
      console.log("send SIGHUP");
      await new Promise((resolve) => setTimeout(resolve, 200));
      console.log("survived");
      Deno.exit(0);`;
  const { out } = await converse("trap '' HUP;", source);
  assertEquals(out, "ignored: SIGHUP\nsend SIGHUP\nsurvived\n");
});

Deno.test("signals that end a program have no handler of a driver, which returns from the first", {
  ignore: ignore || Deno.build.os !== "linux" || isIgnored(3n),
}, async () => {
  const source = `
      import { platforms } from "@netcl/netcl/ffi";
      platforms()[0].devices();
      const [, caught] = /SigCgt:\\s*(\\w+)/.exec(Deno.readTextFileSync("/proc/self/status"));
      const names = { SIGQUIT: 3n, SIGXCPU: 24n, SIGXFSZ: 25n };
      const handled = Object.entries(names)
        .filter(([, n]) => BigInt("0x" + caught) >> (n - 1n) & 1n).map(([name]) => name);
      setTimeout(() => {}, 3000);
      console.log("handled:", handled.join(), "send SIGQUIT");`;
  const { out, status } = await converse("", source);
  assertEquals([out, status.signal], ["handled:  send SIGQUIT\n", "SIGQUIT"]);
});
