/** Commands below a folder that is the root of another system, such as `installDebian` makes. */
import { fileURLToPath } from "node:url";

/** Folder of the repository. */
export const repository: string = fileURLToPath(new URL("../../", import.meta.url));

/** Folder in which a system finds the repository as "main" and what lies beside it as "shared". */
export const place = "/netcl";

/**
 * The mounts are of a process and its children: nothing of the machine's own changes, nothing stays.
 * $1 is the root, $2 the repository, $3 the folder beside it, $4 what runs the root's programs, or nothing.
 */
const enter = `set -e
mount --make-rprivate /
mkdir -p "$1/proc" "$1/dev" "$1/sys" "$1${place}/main" "$1${place}/shared" "$1/tmp"
mount -t proc proc "$1/proc"
mount --rbind /dev "$1/dev"
mount --rbind /sys "$1/sys"
mount --bind "$2" "$1${place}/main"
if [ -d "$3" ]; then mount --bind "$3" "$1${place}/shared"; fi
root=$1 emulator=$4
shift 4
exec chroot "$root" $emulator /usr/bin/env -C "${place}/main" "$@"`;

/**
 * Arguments that run those behind them below `root`, in the repository's folder; only the superuser may.
 *
 * @param emulator The program below `root` that runs its programs where they are for other processors.
 */
export function inside(root: string, emulator = ""): readonly string[] {
  const shared = `${repository}../shared`;
  return ["unshare", "--mount", "sh", "-c", enter, "sh", root, repository, shared, emulator];
}

/** Fails with a sentence where this machine does not let a program have mounts of its own. */
export async function mayEnter(): Promise<string | null> {
  try {
    const args = ["--mount", "true"];
    const { success } = await new Deno.Command("unshare", { args, stderr: "null" }).output();
    return success ? null : "only the superuser may have mounts of its own";
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "there is no unshare";
    throw error;
  }
}
