/** Has processes build programs beside this one, and builds with them. */
import { host } from "../../../ffi/runtime/host.ts";
import type { ChildProcess, ProcessStatus } from "../../../ffi/runtime/types.ts";
import type { Device } from "../../../ffi/mod.ts";
import { obeySignals, waitSync } from "../../lifecycle/waits.ts";
import type { ProgramSource } from "./build_program.ts";
import { hasEnded } from "./ended_process.ts";
import { allowedHelpers, helperArguments } from "./helper_process.ts";
import { JobFolder, type JobState } from "./job_folder.ts";

/** More take no less time: contexts of one device are made one after another. */
const MAX_HELPERS = 8;
/** Characters of source that NVIDIA's compiler and assembler take a second for. */
const SECOND_CHARACTERS = 20_000;
/** A helper is worth its start, which takes 0.5 to 2 s, for so much work of the whole. */
const HELPER_SECONDS = 1;
/** Less is built before a helper is ready. */
const MIN_SECONDS = 2;

/** Callbacks of the programs' owner for each of the jobs. */
export interface JobOwner {
  /** Builds it here. */
  build(job: number): void;
  /** Takes what a helper has built; false where it is of no use. */
  adopt(job: number, binary: Uint8Array): boolean;
}

/** Number of helpers worth while for these jobs: NETCL_BUILD_PROCESSES, if it is set. */
export function helperCount(jobs: readonly ProgramSource[]): number {
  const seconds = jobs.reduce((sum, { text }) => sum + text.length, 0) / SECOND_CHARACTERS;
  const useful = seconds < MIN_SECONDS ? 0 : Math.round(seconds / HELPER_SECONDS);
  return Math.max(
    0,
    Math.min(allowedHelpers() ?? Math.min(useful, mostHelpers()), jobs.length - 1),
  );
}

/** As many as this machine has cores for. */
function mostHelpers(): number {
  return Math.max(0, Math.min(MAX_HELPERS, navigator.hardwareConcurrency - 1));
}

/** Processes at work on a folder. */
interface HelperGroup {
  readonly folder: JobFolder;
  readonly helpers: readonly ChildProcess[];
}

/** The helpers of one owner of programs. */
export class BuildHelpers {
  readonly #parent: string;
  readonly #device: Device;
  /** Helpers that were started before there was anything to build. */
  #waiting: HelperGroup | null = null;

  /**
   * @param parent A folder that only this user writes to.
   * @param device What is built for.
   */
  constructor(parent: string, device: Device) {
    this.#parent = parent;
    this.#device = device;
  }

  /** Starts helpers for what will have to be built soon; they end by themselves where nothing comes. */
  expect(): void {
    const count = allowedHelpers() ?? mostHelpers();
    if (count === 0 || this.#waiting !== null) return;
    this.#waiting = this.#start([], count);
    host.addEndingListener("unload", this.#sendHome);
  }

  /**
   * Builds jobs in this process and in so many helpers, the first of them first.
   *
   * @throws {InterruptedError} After Ctrl+C, between two builds or while it waits for helpers.
   * @throws What `owner.build` throws.
   */
  build(jobs: readonly ProgramSource[], count: number, owner: JobOwner): void {
    const team = this.#takeWaiting(jobs) ?? this.#start(jobs, count);
    try {
      buildWith(team, jobs.length, owner);
    } finally {
      end(team);
    }
  }

  /** Those that wait, with the jobs; null where there are none, or they have given up waiting. */
  #takeWaiting(jobs: readonly ProgramSource[]): HelperGroup | null {
    const team = this.#noLongerWaiting();
    return team?.folder.add(jobs) ? team : null;
  }

  #noLongerWaiting(): HelperGroup | null {
    const team = this.#waiting;
    this.#waiting = null;
    host.removeEndingListener("unload", this.#sendHome);
    return team;
  }

  #start(jobs: readonly ProgramSource[], count: number): HelperGroup {
    const folder = JobFolder.create(this.#parent, jobs);
    const helpers = Array.from({ length: count }, () => startHelper(folder, this.#device));
    return { folder, helpers };
  }

  readonly #sendHome = (): void => {
    const team = this.#noLongerWaiting();
    if (team !== null) end(team);
  };

  /** Ends those that wait. */
  dispose(): void {
    this.#sendHome();
  }
}

/**
 * Ends helpers that nobody needs any more. One that is still starting would make a context for
 * nothing; drivers make those of a device one after another, and the end of this process waits then.
 */
function end({ folder, helpers }: HelperGroup): void {
  folder.remove();
  for (const helper of helpers) {
    if (!running.has(helper)) continue;
    try {
      helper.kill("SIGKILL");
    } catch (error) {
      // It has ended, and the event loop has not heard of it.
      if (!(error instanceof TypeError || error instanceof host.errors.NotFound)) throw error;
    }
  }
}

function buildWith({ folder, helpers }: HelperGroup, count: number, owner: JobOwner): void {
  const pids = new Set(helpers.map(({ pid }) => pid));
  const missing = new Set(Array.from({ length: count }, (_, job) => job));
  const settle = (): void => {
    for (const [job, state] of folder.states()) {
      const isBuilt = state.kind === "built";
      if (!missing.has(job) || !isBuilt && !isLost(state, pids)) continue;
      missing.delete(job);
      if (!isBuilt || !owner.adopt(job, folder.binary(job))) owner.build(job);
    }
  };
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
}

/** True where nobody will build a job any more. */
function isLost(state: JobState, pids: ReadonlySet<number>): boolean {
  if (state.kind === "failed") return true;
  return state.kind === "taken" && state.pid !== host.pid &&
    (!pids.has(state.pid) || hasEnded(state.pid));
}

function startHelper({ path }: JobFolder, device: Device): ChildProcess {
  const module = import.meta.resolve("./build_helper.ts");
  const helper = host.spawn(host.execPath(), helperArguments(module, device, path));
  helper.unref();
  running.add(helper);
  helper.status.finally(() => running.delete(helper));
  return helper;
}

/** Helpers that have not ended, as far as the event loop has heard. */
const running = new Set<ChildProcess>();

/** Resolves to how they ended when all helpers have; nobody but tests need wait for it. */
export async function helpersEnded(): Promise<ProcessStatus[]> {
  return await Promise.all([...running].map((helper) => {
    helper.ref();
    return helper.status;
  }));
}
