/**
 * Windows' Deno in wine, with PoCL behind wine's OpenCL.dll: packages of Debian and of npm in a folder of
 * their own.
 */
import { exists } from "../machine.ts";
import { installDebian } from "./debian_folder.ts";
import { fetchPackages, installDeno } from "./deno_package.ts";
import { inside } from "./root.ts";

/** Wine of this version has what Deno asks of Windows; that of Debian 12 lacks bcryptprimitives.dll. */
const packages = {
  suite: "trixie",
  // libc-bin has the locale of names beyond ASCII.
  packages: ["wine64", "pocl-opencl-icd", "ocl-icd-libopencl1", "coreutils", "libc-bin"],
};

/** Folder of the user, below the root, and what Windows calls it. */
const home = "/home/netcl", homeOnWindows = String.raw`Z:\home\netcl`;

/** The environment of programs that wine runs. */
const environment = {
  HOME: home,
  LC_ALL: "C.UTF-8",
  PATH: "/usr/bin:/bin:/usr/sbin:/sbin",
  WINEPREFIX: `${home}/wine`,
  WINESERVER: "/usr/lib/wine/wineserver64",
  WINEDEBUG: "-all",
  // What would ask by a window.
  WINEDLLOVERRIDES: "winemenubuilder.exe,mscoree,mshtml=d",
  DENO_DIR: String.raw`${homeOnWindows}\deno`,
  DENO_NO_UPDATE_CHECK: "1",
  NO_COLOR: "1",
};

/** Windows' Deno. */
export interface Wine {
  /** Folder of the system that runs wine. */
  readonly root: string;
  /** A command that runs `deno.exe` with these arguments, in the repository's folder. */
  deno(args: readonly string[], env?: Readonly<Record<string, string>>): readonly string[];
}

/** A command of wine's, with nothing of this machine's environment. */
function inWine(root: string, args: readonly string[], env: Readonly<Record<string, string>> = {}) {
  const variables = Object.entries({ ...environment, ...env }).map(([name, value]) =>
    `${name}=${value}`
  );
  return ["env", "-i", ...variables, ...inside(root), "/usr/lib/wine/wine64", ...args];
}

/**
 * Installs it; a folder that has it already is left as it is.
 *
 * @throws {Error} Where a package is out of reach.
 */
export async function installWine(folder: string): Promise<Wine> {
  const root = await installDebian(folder, packages);
  const exe = await installDeno(`${root}${home}`, "win32-x64", "deno.exe");
  const system = `${root}${home}/wine/drive_c/windows/system32`, library = `${system}/zlib1.dll`;
  if (!exists(library)) {
    await Deno.mkdir(system, { recursive: true });
    // A script of the package would put it there.
    await Deno.copyFile(`${root}/usr/x86_64-w64-mingw32ucrt/lib/zlib1.dll`, library);
    const [command, ...args] = inWine(root, ["wineboot", "-i"]);
    const { success } = await new Deno.Command(command!, { args, stdin: "null" }).output();
    if (!success) throw new Error(`wineboot failed in ${root}`);
  }
  await fetchPackages(`${root}${home}/deno`);
  const path = `Z:${exe.slice(root.length)}`;
  return { root, deno: (args, env) => inWine(root, [path, ...args], env) };
}

/** True where a folder has wine already. */
export const hasWine = (folder: string): boolean => exists(`${folder}/installed`);
