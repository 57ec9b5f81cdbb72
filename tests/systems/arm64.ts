/** Deno for Linux on arm64, run by qemu, with PoCL for arm64: packages in a folder of their own. */
import { ignoreMissing, installDebian } from "./debian_folder.ts";
import { fetchPackages, installDeno } from "./deno_package.ts";
import { inside } from "./root.ts";

const system = {
  suite: "trixie",
  architecture: "arm64",
  packages: ["pocl-opencl-icd", "ocl-icd-libopencl1", "coreutils", "libc-bin"],
};
/** Programs of this machine's processor, which need no library. */
const tools = { suite: "bookworm", packages: ["qemu-user-static", "busybox-static"] };

/** The emulator, below the root. */
export const emulator = "/usr/bin/qemu-aarch64-static";
const home = "/home/netcl";
const environment = {
  HOME: home,
  DENO_DIR: `${home}/deno`,
  PATH: "/usr/bin:/bin:/usr/sbin:/sbin",
  LC_ALL: "C.UTF-8",
  DENO_NO_UPDATE_CHECK: "1",
  NO_COLOR: "1",
};

/** PoCL starts the linker, which the kernel cannot run: a shell of this machine's has the emulator do so. */
const linker = `#!/usr/bin/busybox sh\nexec ${emulator} /usr/bin/ld.bfd "$@"\n`;

/** Commands that tests start: the kernel can run those of this machine's processor only. */
const commands = ["cat", "mkfifo", "mount", "sh", "taskset", "umount"];

/** Deno on arm64. */
export interface Arm64 {
  /** A command that runs it with these arguments, in the repository's folder. */
  deno(args: readonly string[], env?: Readonly<Record<string, string>>): readonly string[];
}

/**
 * Installs it; a folder that has it already is left as it is.
 *
 * @throws {Error} Where a package is out of reach.
 */
export async function installArm64(folder: string): Promise<Arm64> {
  const root = await installDebian(`${folder}/arm64`, system);
  const own = await installDebian(`${folder}/tools`, tools);
  if (await Deno.readTextFile(`${root}/usr/bin/ld`) !== linker) {
    await Deno.copyFile(`${own}${emulator}`, `${root}${emulator}`);
    await Deno.copyFile(`${own}/bin/busybox`, `${root}/usr/bin/busybox`);
    await Deno.remove(`${root}/usr/bin/ld`);
    await Deno.writeTextFile(`${root}/usr/bin/ld`, linker, { mode: 0o755 });
  }
  for (const name of commands) {
    const path = `${root}/usr/bin/${name}`;
    await Deno.remove(path).catch(ignoreMissing);
    await Deno.symlink("busybox", path);
  }
  const path = await installDeno(`${root}${home}`, "linux-arm64-glibc", "deno");
  await Deno.chmod(path, 0o755);
  await fetchPackages(`${root}${home}/deno`);
  return {
    deno(args, env = {}) {
      const variables = Object.entries({ ...environment, ...env }).map(([name, value]) =>
        `${name}=${value}`
      );
      const command = [emulator, path.slice(root.length), ...args];
      return ["env", "-i", ...variables, ...inside(root, emulator), ...command];
    },
  };
}
