/** Runs a test in an empty folder, with a name that is not plain ASCII, and takes the folder away. */
export async function inFolder(fn: (folder: string) => Promise<void> | void): Promise<void> {
  const folder = await Deno.makeTempDir({ prefix: "netcl ä " });
  try {
    await fn(folder);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

/** The names of the files in a folder, sorted. */
export function namesIn(folder: string): string[] {
  return [...Deno.readDirSync(folder)].map(({ name }) => name).sort();
}
