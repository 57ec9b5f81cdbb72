/** Has processes build programs beside this one, and builds with them. */
import { EnvironmentError, readEnvironment } from "../../../ffi/host/environment.ts";
import type { Device } from "../../../ffi/mod.ts";
import { obeySignals, waitSync } from "../../lifecycle/waits.ts";
import type { ProgramSource } from "./build_program.ts";
import { hasEnded } from "./ended_process.ts";
import { JobFolder, type JobState } from "./job_folder.ts";

/** More take no less time: contexts of one device are made one after another. */
const MAX_HELPERS = 8;
/** Characters of source that NVIDIA's compiler and assembler take a second for. */
const SECOND_CHARACTERS = 20_000;
/** A helper is worth its start, which takes 0.5 to 2 s, for so much work of the whole. */
const HELPER_SECONDS = 1;
/** Less is built before a helper is ready. */
const MIN_SECONDS = 2;

/** What the owner of programs does with each of the jobs. */
export interface JobOwner {
  /** Builds it here. */
  build(job: number): void;
  /** Takes what a helper has built; false where it is of no use. */
  adopt(job: number, binary: Uint8Array): boolean;
}

/** How many helpers are worth while for what is to be built: NETCL_BUILD_PROCESSES, if it is said. */
export function helperCount(jobs: readonly ProgramSource[]): number {
  if (jobs.length < 2 || !mayRun()) return 0;
  const most = allowedHelpers();
  if (most !== null) return Math.min(most, jobs.length - 1);
  const seconds = jobs.reduce((sum, { text }) => sum + text.length, 0) / SECOND_CHARACTERS;
  if (seconds < MIN_SECONDS) return 0;
  const useful = Math.min(Math.round(seconds / HELPER_SECONDS), jobs.length - 1);
  return Math.max(0, Math.min(useful, MAX_HELPERS, navigator.hardwareConcurrency - 1));
}

/** What the environment says; null where it says nothing. */
function allowedHelpers(): number | null {
  const value = readEnvironment("NETCL_BUILD_PROCESSES");
  if (value === undefined) return null;
  if (/^\d{1,3}$/.test(value)) return Number(value);
  throw new EnvironmentError(
    "NETCL_BUILD_PROCESSES",
    value,
    "write a number of processes, such as 4",
  );
}

/** True where this program may be started again: it has the permission, and is Deno itself. */
function mayRun(): boolean {
  if (Deno.build.standalone) return false;
  return Deno.permissions.querySync({ name: "run", command: Deno.execPath() }).state === "granted";
}

/**
 * Builds jobs in this process and in helpers, the first of them first.
 *
 * @param parent A folder that only this user writes to.
 * @param count How many helpers.
 * @throws {InterruptedError} After Ctrl+C while it waits for helpers.
 * @throws What `owner.build` throws.
 */
export function buildTogether(
  parent: string,
  device: Device,
  jobs: readonly ProgramSource[],
  count: number,
  owner: JobOwner,
): void {
  const folder = JobFolder.create(parent, jobs);
  const helpers = Array.from({ length: count }, () => startHelper(folder, device));
  const pids = new Set(helpers.map(({ pid }) => pid));
  const missing = new Set(jobs.keys());
  const settle = (): void => {
    for (const [job, state] of folder.states()) {
      const isBuilt = state.kind === "built";
      if (!missing.has(job) || !isBuilt && !isLost(state, pids)) continue;
      missing.delete(job);
      if (!isBuilt || !owner.adopt(job, folder.binary(job))) owner.build(job);
    }
  };
  try {
    for (let next = folder.take(); next !== null; next = folder.take()) {
      missing.delete(next.job);
      obeySignals();
      owner.build(next.job);
      settle();
    }
    waitSync(() => {
      settle();
      return missing.size === 0;
    });
  } finally {
    folder.remove();
  }
}

/** True where nobody will build a job any more. */
function isLost(state: JobState, pids: ReadonlySet<number>): boolean {
  if (state.kind === "failed") return true;
  return state.kind === "taken" && state.pid !== Deno.pid &&
    (!pids.has(state.pid) || hasEnded(state.pid));
}

function startHelper({ path }: JobFolder, device: Device): Deno.ChildProcess {
  const { platform, name } = device;
  const alike = platform.devices().filter((other) => other.name === name);
  const place = alike.findIndex((other) => other.unsafeHandle === device.unsafeHandle);
  const helper = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--quiet", "--no-prompt", "--no-config", "--no-lock"],
      ...["--allow-ffi", "--allow-env", "--allow-read", "--allow-write", "--allow-sys"],
      import.meta.resolve("./build_helper.ts"),
      ...[path, platform.name, name, String(place)],
    ],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  helper.unref();
  running.add(helper);
  helper.status.finally(() => running.delete(helper));
  return helper;
}

/** Helpers that have not ended, as far as the event loop has heard. */
const running = new Set<Deno.ChildProcess>();

/** Resolves when all helpers have ended; nobody but tests need wait for it. */
export async function helpersEnded(): Promise<void> {
  await Promise.all([...running].map((helper) => {
    helper.ref();
    return helper.status;
  }));
}
