/**
 * The target of a save: the file behind a link, a device, a file that may not be replaced.
 *
 * @module
 */
import { host } from "../runtime/host.ts";
import type { FileInfo } from "../runtime/types.ts";
import { dirname, isAbsolute, resolve } from "node:path";
import { fileURLToPath } from "node:url";

/** The kind of a path that is to be written. */
export type SaveTarget =
  /** A regular file, or nothing yet: another file takes its place when it is complete. */
  | { readonly kind: "replace"; readonly path: string; readonly former: FileInfo | null }
  /** A device, a FIFO or an inherited descriptor: bytes are passed on, nothing is replaced. */
  | { readonly kind: "stream"; readonly path: string }
  /** A file whose folder may not be used by this program's permissions: it is overwritten. */
  | { readonly kind: "overwrite"; readonly path: string };

const MAX_LINKS = 40;

/**
 * Finds out what a save to `path` has to do. Follows links, as opening a file does.
 *
 * @throws {Error} For a folder, for a file that may not be written, for a ring of links.
 */
export function saveTarget(path: string | URL): SaveTarget {
  let at = lastingPath(path instanceof URL ? fileURLToPath(path) : path);
  for (let links = 0; links < MAX_LINKS; links++) {
    if (isDescriptor(at)) return { kind: "stream", path: at };
    if (!mayReplace(at)) return { kind: "overwrite", path: at };
    const former = lstatIfThere(at);
    if (former === null && links > 0) checkFolder(dirname(at));
    if (former?.isSymlink) at = resolve(dirname(at), host.readLinkSync(at));
    else return classify(at, former);
  }
  throw new host.errors.FilesystemLoop(`more than ${MAX_LINKS} links lead on from it`);
}

/** The file is meant that the path names now: the program may be in another folder at the end. */
function lastingPath(path: string): string {
  const mayAsk = host.isGranted({ name: "read", path: "." });
  if (isAbsolute(path) || !mayAsk) return path;
  // Links and a slash at the end are for the system to interpret: nothing is taken out of the path.
  return `${host.cwd()}/${path}`;
}

function classify(path: string, former: FileInfo | null): SaveTarget {
  if (former?.isDirectory) throw new host.errors.IsADirectory("it is a folder");
  if (former !== null && !former.isFile) return { kind: "stream", path };
  // Renaming asks the folder alone; a file that its owner protected stays as it is.
  if (former !== null) host.openSync(path, { write: true }).close();
  return { kind: "replace", path, former };
}

/** The error for a link without a target names that target. */
function checkFolder(folder: string): void {
  if (lstatIfThere(folder) !== null) return;
  const error = new host.errors.NotFound(`it is a link into ${folder}, which is not there`);
  throw Object.assign(error, { code: "ENOENT" });
}

/** `/dev/stdout` may lead to a regular file, which the shell goes on writing to. */
function isDescriptor(path: string): boolean {
  return host.os !== "windows" && /^\/(proc|dev)\//.test(path) &&
    !path.startsWith("/dev/shm/");
}

/** Deno wants both permissions to rename a file; does not prompt. */
function mayReplace(path: string): boolean {
  return [path, dirname(path)].every((each) =>
    (["read", "write"] as const).every((name) => host.isGranted({ name, path: each }))
  );
}

function lstatIfThere(path: string): FileInfo | null {
  try {
    return host.lstatSync(path);
  } catch (error) {
    if (error instanceof host.errors.NotFound) return null;
    throw error;
  }
}
