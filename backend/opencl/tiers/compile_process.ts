/**
 * A process that compiles programs for who started it, `compile_thread.ts`: the driver keeps them on
 * disk, where that process's driver finds them. PoCL compiles in the threads that compute, with their
 * priority, and starts no kernel meanwhile; in a process of its own it holds up nobody. Its arguments:
 * those of `building/helper_process.ts`, and the OpenCL library. Jobs come in lines, one at a time,
 * each is answered by one.
 */
import { host } from "../../../ffi/runtime/host.ts";
import { Context, type Device, Program } from "../../../ffi/mod.ts";
import { foundDevice, isAlone } from "../building/helper_process.ts";
import { type CompileJob, jobCompiler } from "./compile_job.ts";

async function* lines(input: ReadableStream<Uint8Array<ArrayBuffer>>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of input.pipeThrough(new TextDecoderStream())) {
    const parts = (rest + text).split("\n");
    rest = parts.pop()!;
    yield* parts;
  }
}

/** Compiles what comes until nothing comes any more. */
async function compileJobs(device: Device, library: string): Promise<void> {
  using context = new Context(device);
  const handles = { context: context.unsafeHandle, device: device.unsafeHandle };
  const compiler = jobCompiler({ library, ...handles }, host);
  for await (const line of lines(host.stdin())) {
    const { text, options, launches }: CompileJob = JSON.parse(line);
    const program = new Program(context, text);
    try {
      compiler.compile({ program: program.unsafeHandle, options, launches }, isAlone);
    } catch {
      // Who wants the program builds it, and gets the error.
    }
    program.release();
    await host.writeStdout(new TextEncoder().encode("\n"));
  }
  compiler.release();
}

if (import.meta.main) {
  const device = foundDevice();
  if (device !== null) await compileJobs(device, host.args.at(-1)!);
}
