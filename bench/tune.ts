/**
 * `deno task tune`: times the tiles that contractions could be computed in on a device, and keeps
 * those that are clearly better than the defaults in the cache folder, where netcl finds them at its
 * next start. Each is written as soon as it is found: Ctrl+C loses nothing.
 */
import { argumentsOrExit, flagValues } from "./arguments.ts";
import { backendOf } from "../backend/internal.ts";
import { OpenCLBackend } from "../backend/opencl/runtime/opencl_backend.ts";
import { keyOf } from "../backend/opencl/templates/parts/tiling.ts";
import { keepTunedTile, tunedTilesPath } from "../backend/opencl/runtime/tuned_tiles.ts";
import { device, type DeviceHandle, manager } from "../mod.ts";
import { type Finding, tuneContraction, type TuneOptions } from "./tune/tuner.ts";
import { contractionsOf, defaultWorks, kinds, type TuneWork, work } from "./tune/works.ts";

const help = `deno task tune [options]
  --device D     what to tune for: cl (the default), gpu, cl:PLATFORM:DEVICE
${
  Object.entries(kinds).map(([kind, { usage }]) => `  --${kind} ${usage}`).join("\n")
}      sizes to tune for, as often as wanted; without any a list of common ones
  --seconds S    how long to look at one contraction (5)
  --gain P       write what is faster by so many percent (5)`;

interface Options extends TuneOptions {
  readonly device: string;
  readonly works: readonly TuneWork[];
}

function numberOf(name: string, text: string): number {
  const value = Number(text);
  if (text.trim() === "" || !Number.isFinite(value)) {
    throw new TypeError(`Cannot tune with --${name} ${text}: it takes a number`);
  }
  return value;
}

/** The choices of the arguments; null where they ask for help. */
export function parseOptions(args: string[]): Options | null {
  const string = { type: "string" } as const, list = { type: "string", multiple: true } as const;
  const sizes = { matmul: list, linear: list, conv: list };
  const values = flagValues(args, {
    ...sizes,
    device: string,
    seconds: string,
    gain: string,
    help: { type: "boolean" },
  });
  if (values.help === true) return null;
  const named = (["matmul", "linear", "conv"] as const).flatMap((kind) =>
    (values[kind] ?? []).map((size) => work(kind, size))
  );
  return {
    device: values.device ?? "cl",
    works: named.length > 0 ? named : defaultWorks,
    seconds: numberOf("seconds", values.seconds ?? "5"),
    gain: numberOf("gain", values.gain ?? "5") / 100,
  };
}

const widths = [36, 22, 22, 8, 8, 6];

function line(...cells: string[]): void {
  const padded = cells.map((cell, k) =>
    k < 3 ? cell.padEnd(widths[k]!) : cell.padStart(widths[k]!)
  );
  console.log(padded.join("  ").trimEnd());
}

function print({ work, first, best, times, isBetter }: Finding): void {
  const { batch, m, n, k } = work.shape;
  const flops = 2 * batch * m * n * k.reduce((a, b) => a * b, 1);
  const rate = (milliseconds: number): string =>
    String(Number((flops / milliseconds / 1e6).toPrecision(3)));
  const gain = isBetter ? `${Math.round((times[0] / times[1] - 1) * 100)} %` : "-";
  line(work.name, first, isBetter ? best : "the same", rate(times[0]), rate(times[1]), gain);
}

/** Tunes what was asked for on a device; returns how many tiles were found. */
export async function tune(handle: DeviceHandle, { works, ...options }: Options): Promise<number> {
  const backend = backendOf(handle);
  if (!(backend instanceof OpenCLBackend)) {
    throw new TypeError(`Cannot tune ${handle}: tiles are those of OpenCL devices`);
  }
  const path = tunedTilesPath(handle.clDevice!);
  if (path === null) {
    throw new Error("Cannot keep what is found: set NETCL_CACHE_DIR to a folder");
  }
  console.log(`${handle.deviceName}, tiles go to ${path}\n`);
  line("contraction", "default", "best", "GFLOP/s", "then", "gain");
  using _active = device(handle);
  const seen = new Set<string>();
  let kept = 0;
  for (const work of works) {
    for (const contraction of contractionsOf(work, backend)) {
      const key = keyOf(contraction.shape);
      if (seen.has(key)) continue;
      seen.add(key);
      for await (const finding of tuneContraction(backend, contraction, options)) {
        print(finding);
        keepTunedTile(handle.clDevice!, keyOf(finding.work.shape), finding.found);
        if (finding.isBetter) kept++;
      }
    }
  }
  console.log(
    kept > 0 ? `\n${kept} written to ${path}` : "\nThe defaults are best: nothing written",
  );
  return kept;
}

if (import.meta.main) {
  const options = argumentsOrExit(parseOptions);
  if (options === null) console.log(help);
  else await tune(manager.default(options.device), options);
}
