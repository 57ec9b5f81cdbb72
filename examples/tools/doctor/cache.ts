/** The folder where compiled kernels are kept between two starts. */
import { readEnvironment } from "@netcl/netcl/ffi";
import type { Finding } from "./finding.ts";

const subject = "kernel cache";

/** Checks that compiled kernels can be kept. */
export function checkCache(): Finding {
  if (readEnvironment("NETCL_CACHE_DIR") === "off") {
    return { subject, found: "switched off by NETCL_CACHE_DIR" };
  }
  const folder = cacheFolder();
  if (folder === null) {
    const remedy = "set NETCL_CACHE_DIR to a folder, and run with --allow-env";
    return { subject, found: "no folder is known: kernels are compiled at each start", remedy };
  }
  const denied = (["read", "write"] as const).filter((name) =>
    Deno.permissions.querySync({ name, path: folder }).state !== "granted"
  );
  if (denied.length > 0) {
    const flags = denied.map((name) => `--allow-${name}=${folder}`).join(" ");
    return { subject, found: `${folder} may not be used`, remedy: `run with ${flags}` };
  }
  return tryFolder(folder);
}

function tryFolder(folder: string): Finding {
  const file = `${folder}/doctor.${Deno.pid}`;
  try {
    Deno.mkdirSync(folder, { recursive: true, mode: 0o700 });
    Deno.writeTextFileSync(file, "");
    Deno.removeSync(file);
    const problem = unsafe(folder);
    if (problem !== null) {
      const remedy = "run chmod 700 on it, or set NETCL_CACHE_DIR to a folder of your own";
      return { subject, found: `${folder}: ${problem}, so no kernel is cached`, remedy };
    }
    const entries = [...Deno.readDirSync(folder)].filter(({ name }) =>
      name.endsWith(".bin")
    ).length;
    return { subject, found: `${folder}, ${entries} programs` };
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    const remedy = "make it writable, or set NETCL_CACHE_DIR to another folder";
    return { subject, found: `${folder}: ${error.message}`, remedy };
  }
}

/** Compiled kernels are code: netcl takes none that somebody else may have put there. */
function unsafe(folder: string): string | null {
  const { uid, mode } = Deno.statSync(folder);
  if (Deno.build.os === "windows") return null;
  const mayAsk = Deno.permissions.querySync({ name: "sys", kind: "uid" }).state === "granted";
  if (mayAsk && uid !== Deno.uid()) return `it belongs to another user (${uid})`;
  return (mode! & 0o022) === 0 ? null : "others may write to it";
}

/** As the library chooses it: the variable, else the user's cache folder. */
function cacheFolder(): string | null {
  const chosen = readEnvironment("NETCL_CACHE_DIR");
  if (chosen !== undefined) return chosen;
  const user = userCacheFolder();
  return user === undefined ? null : `${user}/netcl`;
}

function userCacheFolder(): string | undefined {
  if (Deno.permissions.querySync({ name: "env" }).state !== "granted") return undefined;
  if (Deno.build.os === "windows") return Deno.env.get("LOCALAPPDATA");
  const home = Deno.env.get("HOME");
  if (Deno.build.os === "darwin") return home && `${home}/Library/Caches`;
  return Deno.env.get("XDG_CACHE_HOME") ?? (home && `${home}/.cache`);
}
