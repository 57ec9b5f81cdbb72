/**
 * Saving files so that half a file is never seen: by a reader, a second save to the same path, a
 * kill, a full disk. Bytes go into a new file beside, onto the disk, and then under the name.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { FileInfo, OpenOptions } from "../runtime/types.ts";
import { dirname } from "node:path";
import { PartialFile, removeLeftovers } from "./partial_file.ts";
import { saveError } from "./save_error.ts";
import { type SaveTarget, saveTarget } from "./save_target.ts";
import * as takes from "./option_rules.ts";
import type { Rule } from "./option_rules.ts";
import { checkOptions, requireValue, type Rules } from "./options.ts";

/** Options of a save. */
export interface SaveOptions {
  /**
   * True to wait until the disk has it, so that a power cut leaves the former file or this one.
   * Default: true.
   */
  readonly durable?: boolean;
  /** Permissions of a file that is new. Default: those of every new file of the process. */
  readonly mode?: number;
}

const rules: Rules<SaveOptions> = {
  durable: takes.bool,
  mode: takes.whole,
};

const someBytes: Rule = {
  takes: "a Uint8Array, or a string where the call takes text",
  accepts: (value) => value instanceof Uint8Array,
};

const byteArrays: Rule = {
  takes: "an array of Uint8Arrays, or what yields them one by one",
  accepts: (value) =>
    typeof value === "object" && value !== null && !ArrayBuffer.isView(value) &&
    (Symbol.iterator in value || Symbol.asyncIterator in value),
};

/** @throws {TypeError} From the part that is no bytes. */
async function* checkedParts(
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
): AsyncGenerator<Uint8Array> {
  for await (const part of parts) {
    requireValue("save a file", "a part", part, someBytes);
    yield part;
  }
}

/** Saves under way: an exit that can wait, waits for them. */
const running = new Set<Promise<void>>();

/** Numbers saves: of two to one path, the one that began later wins. */
let begun = 0;
const newest = new Map<string, { number: number; users: number }>();

/** Resolves when the saves that are under way have ended, well or not. */
export async function savesFinished(): Promise<void> {
  await Promise.allSettled(running);
}

/** True when a save is under way. */
export function isSaving(): boolean {
  return running.size > 0;
}

/**
 * Saves a file. It appears under its name when it is complete and on the disk; until then, and when
 * it fails, a former one stays as it was. Permissions and owner of a former file are kept as far as
 * the user may set them, a link stays and its target is replaced, a device or FIFO gets the bytes.
 * Of two saves to one path the one that began later stays. Where the permissions of the program are
 * for the file alone and not for its folder, it is overwritten in place.
 *
 * @param path Where the file will be.
 * @param parts The bytes, in order.
 * @param options How it is saved.
 * @throws {Error} Of Deno's classes, with the path and the remedy: no folder, no permission, no room.
 *
 * @example
 * ```ts
 * import { saveFile } from "@netcl/netcl/backend";
 *
 * const path = await Deno.makeTempFile();
 * await saveFile(path, [new TextEncoder().encode("whole or not at all")]);
 * console.assert(await Deno.readTextFile(path) === "whole or not at all");
 * await Deno.remove(path);
 * ```
 */
export function saveFile(
  path: string | URL,
  parts: AsyncIterable<Uint8Array> | Iterable<Uint8Array>,
  options: SaveOptions = {},
): Promise<void> {
  requireValue("save a file", "path", path, takes.path);
  requireValue("save a file", "parts", parts, byteArrays);
  checkOptions("save a file", options, rules);
  const number = ++begun;
  const save = (async () => {
    try {
      const target = saveTarget(path);
      const checked = checkedParts(parts);
      if (target.kind === "replace") await replace(target, checked, options, number);
      else await pass(target, checked);
    } catch (error) {
      throw saveError(path, error);
    }
  })();
  running.add(save);
  const forget = () => void running.delete(save);
  save.then(forget, forget);
  return save;
}

/**
 * Saves a file as {@linkcode saveFile} does, and blocks the event loop until it is there.
 *
 * @param path The place of the file.
 * @param content All of it; text is written as UTF-8.
 * @param options Waiting for the disk, and permissions.
 * @throws {Error} Of Deno's classes, with the path and the remedy: no folder, no permission, no
 *   room.
 */
export function saveFileSync(
  path: string | URL,
  content: Uint8Array | string,
  options: SaveOptions = {},
): void {
  requireValue("save a file", "path", path, takes.path);
  checkOptions("save a file", options, rules);
  const number = ++begun;
  const bytes = typeof content === "string" ? new TextEncoder().encode(content) : content;
  requireValue("save a file", "content", bytes, someBytes);
  try {
    const target = saveTarget(path);
    if (target.kind === "replace") replaceSync(target, bytes, options, number);
    else passSync(target, bytes);
  } catch (error) {
    throw saveError(path, error);
  }
}

type Replaced = Extract<SaveTarget, { kind: "replace" }>;

async function replace(
  target: Replaced,
  parts: AsyncIterable<Uint8Array>,
  { durable = true, mode }: SaveOptions,
  number: number,
): Promise<void> {
  {
    using replacement = new Replacement(target, mode);
    for await (const part of parts) await replacement.file.write(part);
    await replacement.file.complete(durable);
    replacement.appear(number);
  }
  if (durable) syncFolder(dirname(target.path));
}

function replaceSync(
  target: Replaced,
  bytes: Uint8Array,
  { durable = true, mode }: SaveOptions,
  number: number,
): void {
  {
    using replacement = new Replacement(target, mode);
    replacement.file.writeSync(bytes);
    replacement.file.completeSync(durable);
    replacement.appear(number);
  }
  if (durable) syncFolder(dirname(target.path));
}

/** A file on its way to a name: it goes, unless it appears under that name. */
class Replacement implements Disposable {
  /** Private until it has the permissions of the file that it replaces. */
  readonly file: PartialFile;
  readonly #target: Replaced;
  #isOver = false;

  constructor(target: Replaced, mode?: number) {
    const { path, former } = target;
    removeLeftovers(dirname(path));
    this.#target = target;
    this.file = PartialFile.create(path, former === null ? mode : 0o600);
    const entry = newest.get(path);
    if (entry) entry.users++;
    else newest.set(path, { number: 0, users: 1 });
  }

  /** Gives it the name, unless a save that began later has it already. */
  appear(number: number): void {
    const { path, former } = this.#target, entry = newest.get(path)!;
    if (entry.number > number) return;
    if (former !== null) keepPermissions(this.file.path, former);
    host.renameSync(this.file.path, path);
    entry.number = number;
    this.#isOver = true;
  }

  [Symbol.dispose](): void {
    const { path } = this.#target, entry = newest.get(path);
    if (entry && --entry.users === 0) newest.delete(path);
    if (!this.#isOver) this.file.discard();
  }
}

/** Owner first: changing it takes away bits of the mode. */
function keepPermissions(path: string, former: FileInfo): void {
  if (host.os === "windows" || former.mode === null) return;
  const own = host.lstatSync(path);
  let mode = former.mode & 0o777;
  if (!keepOwner(path, own, former)) mode = mode & ~0o070 | (mode & 0o007) << 3;
  host.chmodSync(path, mode);
}

/** False where the group could not be kept: its rights are not for another group then. */
function keepOwner(path: string, own: FileInfo, former: FileInfo): boolean {
  if (own.uid === former.uid && own.gid === former.gid) return true;
  return mayOwn(path, former.uid, former.gid) || own.gid === former.gid ||
    mayOwn(path, null, former.gid);
}

function mayOwn(path: string, uid: number | null, gid: number | null): boolean {
  try {
    host.chownSync(path, uid, gid);
    return true;
  } catch (error) {
    if (error instanceof host.errors.PermissionDenied || isNotPermitted(error)) return false;
    throw error;
  }
}

function isNotPermitted(error: unknown): boolean {
  return error instanceof Error && "code" in error && error.code === "EPERM";
}

/** The name is part of the folder: without this a power cut may take it back. */
function syncFolder(folder: string): void {
  if (host.os === "windows") return; // knows no such call
  using file = host.openSync(folder);
  file.syncSync();
}

type Passed = Exclude<SaveTarget, Replaced>;

function openPassed({ kind, path }: Passed): OpenOptions & { path: string } {
  return kind === "stream"
    ? { path, append: true }
    : { path, write: true, create: true, truncate: true };
}

async function pass(target: Passed, parts: AsyncIterable<Uint8Array>): Promise<void> {
  const { path, ...options } = openPassed(target);
  using file = await host.open(path, options);
  for await (const part of parts) {
    for (let at = 0; at < part.length;) at += await file.write(part.subarray(at));
  }
}

function passSync(target: Passed, bytes: Uint8Array): void {
  const { path, ...options } = openPassed(target);
  using file = host.openSync(path, options);
  for (let at = 0; at < bytes.length;) at += file.writeSync(bytes.subarray(at));
}
