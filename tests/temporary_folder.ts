/** Folders of tests, with names that are not plain ASCII: empty at first, and taken away. */
import { createHash } from "node:crypto";
import { tmpdir } from "node:os";

const PREFIX = "netcl ä ";

/** Runs a test in a folder of its own. */
export async function inFolder(fn: (folder: string) => Promise<void> | void): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: PREFIX });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** `Deno.test` in a folder of its own, which `run` makes. */
export function testInFolder(
  name: string,
  fn: (folder: string) => void | Promise<void>,
  ignore = false,
  run = inFolder,
): void {
  Deno.test(name, { ignore }, () => run(fn));
}

/**
 * Runs a test in a folder whose path is that of the last time: what Deno keeps by path and content
 * (types that it checked, modules that it compiled) it finds again, and its caches do not grow. One
 * process of a user and checkout at a time has it, others wait.
 */
export async function inSameFolder(
  name: string,
  fn: (folder: string) => Promise<void> | void,
): Promise<void> {
  const checkout = createHash("sha256").update(`${Deno.uid()} ${import.meta.url}`).digest("hex");
  const folder = `${tmpdir()}/${PREFIX}${name} ${checkout.slice(0, 16)}`;
  using lock = await Deno.open(`${folder}.lock`, { create: true, write: true, mode: 0o600 });
  await lock.lock(true);
  await Deno.remove(folder, { recursive: true }).catch(ignoreNotFound); // of one that was killed
  await Deno.mkdir(folder, { mode: 0o700 });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function ignoreNotFound(error: unknown): void {
  if (!(error instanceof Deno.errors.NotFound)) throw error;
}

/** The names of the files in a folder, sorted. */
export function namesIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
}
