/**
 * `deno task fuzz --files N --seed S --only NAME`: N hostile files of every format that is read, made of good ones
 * by `damage.ts`. Each must give values whose lengths are those of their shapes, or an error of netcl's own
 * that says what is wrong; within two seconds, without much memory, and without a file left open. The
 * same seed tries the same files. A file that fails is kept, and its path printed.
 */
import { cpuUsage } from "node:process";
import { FileFormatError } from "../../mod.ts";
import { type Bytes, Chance, damageBytes, damageParts } from "./damage.ts";
import { type Format, formats, type Sample } from "./formats.ts";

/** The longest that a file may take, in milliseconds of processors, and so much more for each megabyte of it. */
const MAX_MS = 2000, MAX_MS_A_MEGABYTE = 1000;
/** The most memory that one may take beside what is garbage. */
const MAX_BYTES = 256 * 2 ** 20;

/** Errors of JavaScript's own that begin as those of netcl do. */
const nativeMessage =
  /^Cannot (read|set) properties|^Cannot (convert|destructure|mix|access|assign|define|delete|redefine) /;

/** True for an error that netcl has written for its user. */
function isOwn(error: unknown): boolean {
  if (error instanceof FileFormatError) return true;
  return error instanceof Error && /^Cannot /.test(error.message) &&
    !nativeMessage.test(error.message);
}

/** Damages a sample: its bytes, its parts, or both. */
export function damaged({ bytes, structure }: Sample, chance: Chance): Bytes {
  const kind = chance.below(8);
  if (!structure || kind < 2) return damageBytes(bytes, chance);
  const changed = damageParts(structure)(bytes, chance);
  return kind === 2 ? damageBytes(changed, chance) : changed;
}

/** Bytes of the process's memory; 0 where the system does not say. */
function memory(what: "peak" | "now"): number {
  if (Deno.build.os !== "linux") return 0;
  const status = Deno.readTextFileSync("/proc/self/status");
  const line = what === "peak" ? /VmHWM:\s+(\d+)/ : /VmRSS:\s+(\d+)/;
  return Number(line.exec(status)![1]) * 1024;
}

/** Makes the peak what is had now; gives that back. */
function forgetPeak(): number {
  if (Deno.build.os === "linux") Deno.writeTextFileSync("/proc/self/clear_refs", "5");
  return memory("now");
}

/** The number of files that the process has open; 0 where the system does not say. */
function openFiles(): number {
  return Deno.build.os === "linux" ? [...Deno.readDirSync("/proc/self/fd")].length : 0;
}

/** Counts of the files of a format. */
export interface Count {
  readonly values: number;
  readonly errors: number;
  /** Faults, each with its file. */
  readonly faults: readonly string[];
}

/** Reads a file; gives back what is wrong, or null. */
async function faultOf(format: Format, bytes: Bytes, name: string): Promise<string | null> {
  const start = cpuUsage();
  try {
    await format.read(bytes, name);
    return took(start, bytes);
  } catch (error) {
    if (isOwn(error)) return took(start, bytes) ?? "";
    return `${(error as Error)?.stack ?? error}`;
  }
}

function took(start: NodeJS.CpuUsage, { length }: Bytes): string | null {
  const { user, system } = cpuUsage(start), ms = (user + system) / 1000;
  return ms > MAX_MS + MAX_MS_A_MEGABYTE * length / 2 ** 20 ? `it took ${ms.toFixed()} ms` : null;
}

/** Stops at so many faults of a format: most are one. */
const MAX_FAULTS = 10;

/** The memory of the process is looked at after so many. */
const FILES_A_LOOK = 50;

/** A fault in words, with the path of the file, which is kept. */
async function kept(k: number, { name }: Sample, bytes: Bytes, fault: string): Promise<string> {
  const path = await Deno.makeTempFile({ prefix: "netcl_hostile_" });
  await Deno.writeFile(path, bytes);
  return `file ${k} (${path}, ${name}): ${fault}`;
}

/** Files that the runtime itself may open meanwhile. */
const MAX_LEFT = 10;

/** Tries hostile files of a format. */
export async function fuzzFormat(format: Format, count: number, seed: number): Promise<Count> {
  const samples = await format.samples();
  const faults: string[] = [];
  let values = 0, errors = 0;
  // What is loaded and compiled once is no file's fault.
  for (const { bytes, name } of samples) await faultOf(format, bytes, name);
  const open = openFiles();
  let before = forgetPeak(), later: [number, Sample, Bytes][] = [];
  for (let k = 0; k < count && faults.length < MAX_FAULTS; k++) {
    const chance = new Chance(seed + k * 7919), sample = chance.one(samples);
    const bytes = damaged(sample, chance), fault = await faultOf(format, bytes, sample.name);
    if (fault) faults.push(await kept(k, sample, bytes, fault));
    else if (fault === "") errors++;
    else values++;
    later.push([k, sample, bytes]);
    if (later.length < FILES_A_LOOK && k + 1 < count) continue;
    if (memory("peak") - before > MAX_BYTES) {
      // The garbage of all, or what one of them takes: the second time tells.
      for (const [k, sample, bytes] of later) {
        before = forgetPeak();
        await faultOf(format, bytes, sample.name);
        const grown = memory("peak") - before, text = `it took ${(grown / 2 ** 20).toFixed()} MiB`;
        if (grown > MAX_BYTES) faults.push(await kept(k, sample, bytes, text));
      }
      before = forgetPeak();
    }
    later = [];
  }
  const left = openFiles() - open;
  if (left > MAX_LEFT) faults.push(`${left} files are left open`);
  return { values, errors, faults };
}

/** Tries so many files of every format; gives back whether all is well. */
export async function fuzzFiles(count: number, seed: number, only = ""): Promise<boolean> {
  let isWell = true;
  for (const name of Object.keys(formats).filter((name) => name.includes(only))) {
    using format = await formats[name]!();
    const { values, errors, faults } = await fuzzFormat(format, count, seed);
    console.log(`${name}: ${errors} errors, ${values} read, ${faults.length} faults`);
    for (const fault of faults) console.log(`  ${fault}`);
    isWell &&= faults.length === 0;
  }
  return isWell;
}
