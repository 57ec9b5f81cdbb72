/**
 * Programs to be built, as files that processes share: who takes a job renames it, so that each is
 * built once. The folder lies in the kernel cache, which only this user writes to: binaries are code.
 */
import { host } from "../../../ffi/runtime/host.ts";
import { join } from "node:path";
import { ifThere } from "../../../ffi/host/partial_file.ts";
import type { ProgramSource } from "./build_program.ts";

/** State of a job: open, taken by a process, built, or given up by who took it. */
export type JobState =
  | { readonly kind: "open" | "failed" | "built" }
  | { readonly kind: "taken"; readonly pid: number };

const STATE = /^(\d+)\.(?:taken\.(\d+)|(failed|built))$/;

const PREFIX = ".building-";
/** A file that stands for jobs that are still to come. */
const WAITING = "waiting";
/** No build takes as long: an older folder is of a process that was killed. */
const LEFTOVER_MS = 3_600_000;

/** A folder of jobs, numbered by the order in which they should be taken. */
export class JobFolder {
  /** Path of it. */
  readonly path: string;

  /** @param path A folder that {@linkcode JobFolder.create} made. */
  constructor(path: string) {
    this.path = path;
  }

  /** Makes a folder of its own within `parent`, with these jobs; none are still to come. */
  static create(parent: string, jobs: readonly ProgramSource[]): JobFolder {
    host.mkdirSync(parent, 0o700);
    removeLeftovers(parent);
    const folder = new JobFolder(host.makeTempDirSync({ dir: parent, prefix: PREFIX }));
    if (jobs.length === 0) folder.#put(WAITING, new Uint8Array(0));
    folder.#open(jobs);
    return folder;
  }

  #open(jobs: readonly ProgramSource[]): void {
    jobs.forEach((job, k) => {
      this.#put(`${k}.open`, new TextEncoder().encode(JSON.stringify(job)));
    });
  }

  /** Puts in the jobs that were still to come; false where those who waited have given up. */
  add(jobs: readonly ProgramSource[]): boolean {
    return ifThere(() => {
      this.#open(jobs);
      return renamed(join(this.path, WAITING), join(this.path, "begun"));
    }) ?? false;
  }

  /** True while jobs are still to come. */
  get isWaiting(): boolean {
    return ifThere(() => host.lstatSync(join(this.path, WAITING))) !== undefined;
  }

  /** Gives up waiting for jobs: takes the folder away, unless they have come. */
  leave(): void {
    if (renamed(join(this.path, WAITING), join(this.path, "left"))) this.remove();
  }

  /** Takes the next open job, if there is one; null for none. */
  take(): { readonly job: number; readonly source: ProgramSource } | null {
    const open = this.#names().filter((name) => name.endsWith(".open"));
    open.sort((a, b) => parseInt(a) - parseInt(b));
    for (const name of open) {
      const job = parseInt(name), taken = join(this.path, `${job}.taken.${host.pid}`);
      if (!renamed(join(this.path, name), taken)) continue;
      return { job, source: JSON.parse(host.readTextFileSync(taken)) };
    }
    return null;
  }

  /** Puts the binary of a job that was taken where others find it. */
  built(job: number, binary: Uint8Array): void {
    this.#put(`${job}.built`, binary);
  }

  /** Gives a job up that was taken: it is to be built by who wants it, and gets the error. */
  failed(job: number): void {
    this.#put(`${job}.failed`, new Uint8Array(0));
  }

  /** The binary of a job that is built. */
  binary(job: number): Uint8Array {
    return host.readFileSync(join(this.path, `${job}.built`));
  }

  /** States of the jobs, by number; those that are not named are open. */
  states(): Map<number, JobState> {
    const states = new Map<number, JobState>();
    for (const name of this.#names()) {
      const [, job, pid, end] = STATE.exec(name) ?? [];
      if (end) states.set(Number(job), { kind: end as "failed" | "built" });
      // The file of its taking stays when it is built or given up.
      else if (pid && !states.has(Number(job))) {
        states.set(Number(job), { kind: "taken", pid: Number(pid) });
      }
    }
    return states;
  }

  /** Takes the folder away; helpers end then. */
  remove(): void {
    ifThere(() => host.removeSync(this.path, { recursive: true }));
  }

  #names(): string[] {
    return [...host.readDirSync(this.path)].map(({ name }) => name);
  }

  /** A reader meets all of the file or none of it. */
  #put(name: string, bytes: Uint8Array): void {
    const partial = join(this.path, `${name}.${host.pid}.part`);
    host.writeNewFileSync(partial, bytes, 0o600);
    host.renameSync(partial, join(this.path, name));
  }
}

/** Renames a file; false where another process was faster. */
function renamed(from: string, to: string): boolean {
  return ifThere(() => {
    host.renameSync(from, to);
    return true;
  }) ?? false;
}

function removeLeftovers(parent: string): void {
  for (const { name, isDirectory } of host.readDirSync(parent)) {
    if (!isDirectory || !name.startsWith(PREFIX)) continue;
    const path = join(parent, name), made = ifThere(() => host.lstatSync(path))?.mtime?.getTime();
    if (made === undefined || Date.now() - made < LEFTOVER_MS) continue;
    ifThere(() => host.removeSync(path, { recursive: true }));
  }
}
