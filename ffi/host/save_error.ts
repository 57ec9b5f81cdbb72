/**
 * The error message when a file cannot be written.
 *
 * @module
 */

import { host } from "../runtime/host.ts";

/** Remedies by the operating system's name of the error; `%` is the path. */
const remedies: { readonly [code: string]: string } = {
  ENOENT: "make its folder first (mkdir -p)",
  ENOTDIR: "a part of the path is a file; choose another path",
  EISDIR: "choose the name of a file in it",
  EACCES: "it or its folder is not writable for this user: change its mode (chmod u+w), or save " +
    "elsewhere",
  EPERM: "it or its folder is not writable for this user: change its owner, or save elsewhere",
  EROFS: "the disk is mounted read-only: save elsewhere",
  ENOSPC: "the disk is full: make room, or save elsewhere",
  EDQUOT: "your share of the disk is used up: make room, or save elsewhere",
  EFBIG: "the disk holds no file of this size: save elsewhere, or in several files",
  ENAMETOOLONG: "choose a shorter name",
};

/**
 * The error for a person: of the same class, with the path, the reason and the remedy.
 *
 * @param path What was to be written.
 * @param error What came of it.
 */
export function saveError(path: string | URL, error: unknown): unknown {
  if (!(error instanceof Error)) return error;
  const remedy = remedyFor(path, error);
  if (remedy === undefined) return error;
  const Class = error.constructor as ErrorConstructor;
  const told = new Class(`Cannot save "${path}": ${reasonOf(error)}; ${remedy}`, { cause: error });
  told.cause ??= error;
  // Where classes are told apart by it.
  if ("code" in error && !("code" in told)) Object.assign(told, { code: error.code });
  return told;
}

function reasonOf(error: Error): string {
  if (error instanceof host.errors.NotCapable) return "the program may not write there";
  // Deno: "No such file or directory (os error 2): ..."; else "ENOENT: no such file or directory, open '...'".
  // Windows' sentences have a full stop.
  const reason = error.message.replace(/\.? \(os error \d+\).*$/s, "");
  return reason.replace(
    /^E[A-Z]+: (.)(.*), \w+ '.*$/s,
    (_, first, rest) => first.toUpperCase() + rest,
  );
}

function remedyFor(path: string | URL, error: Error): string | undefined {
  if (error instanceof host.errors.NotCapable) return `run with --allow-write="${path}"`;
  if (error instanceof host.errors.IsADirectory) return remedies.EISDIR;
  if (error instanceof host.errors.FilesystemLoop) return "remove one of them";
  return "code" in error ? remedies[String(error.code)] : undefined;
}
