/** Packages of a version of Debian in a folder of their own: nothing of the machine's own is changed. */

/** Packages that are wanted. */
export interface DebianPackages {
  /** Name of the version, such as "sid" or "trixie". */
  readonly suite: string;
  readonly packages: readonly string[];
  /** Debian's name of the processors; default "amd64". */
  readonly architecture?: string;
}

async function succeed(
  command: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "env"> = {},
): Promise<string> {
  const run = new Deno.Command(command, { args: [...args], stdin: "null", ...options });
  const { success, stdout, stderr } = await run.output(), text = new TextDecoder();
  if (!success) throw new Error(`${command} ${args.join(" ")}: ${text.decode(stderr)}`);
  return text.decode(stdout);
}

/** The address from which this machine gets packages of Debian. */
async function debianSource(): Promise<string> {
  const format = "$(ORIGIN) $(COMPONENT) $(REPO_URI)";
  const rows = (await succeed("apt-get", ["indextargets", "--format", format])).split("\n");
  const [first] = rows.flatMap((row) => /^Debian main (\S*\/debian\/?)$/.exec(row)?.[1] ?? []);
  if (first) return first;
  throw new Error("Cannot find a source of Debian's packages: run `apt-get update` first");
}

/** Settings with which apt looks at `folder` alone, as if nothing were installed. */
function configuration(folder: string, architecture: string): string {
  const settings = {
    "APT::Architecture": architecture,
    "APT::Architectures": architecture,
    "APT::Install-Recommends": "false",
    "APT::Sandbox::User": "root",
    "Acquire::Check-Valid-Until": "false",
    "Acquire::Languages": "none",
    "Debug::NoLocking": "true",
    "Dir::Cache": `${folder}/cache`,
    "Dir::Etc": `${folder}/etc`,
    "Dir::State": `${folder}/state`,
    "Dir::State::status": `${folder}/state/status`,
  };
  return Object.entries(settings).map(([name, value]) => `${name} "${value}";\n`).join("");
}

/** True where a folder has packages already. */
export async function hasDebian(folder: string, { packages }: DebianPackages): Promise<boolean> {
  return await Deno.readTextFile(`${folder}/installed`).catch(ignoreMissing) ===
    packages.join("\n");
}

/**
 * Unpacks packages, with what they depend on, below `folder`: the root of a system in which `chroot` finds
 * their programs. Scripts of packages do not run. A folder that has them already is left as it is.
 *
 * @returns That root.
 */
export async function installDebian(
  folder: string,
  wanted: DebianPackages,
): Promise<string> {
  const { suite, packages, architecture = "amd64" } = wanted, root = `${folder}/root`;
  if (await hasDebian(folder, wanted)) return root;
  const folders = ["etc/apt.conf.d", "state/lists/partial", "cache/archives/partial", "root"];
  for (const each of folders) await Deno.mkdir(`${folder}/${each}`, { recursive: true });
  const key = "/usr/share/keyrings/debian-archive-keyring.gpg";
  const source = `deb [signed-by=${key}] ${await debianSource()} ${suite} main\n`;
  await Deno.writeTextFile(`${folder}/etc/sources.list`, source);
  await Deno.writeTextFile(`${folder}/state/status`, "");
  await Deno.writeTextFile(`${folder}/apt.conf`, configuration(folder, architecture));
  const env = { APT_CONFIG: `${folder}/apt.conf` };
  await succeed("apt-get", ["update", "-q"], { env });
  // The links of a system's first folders come with it.
  const all = ["base-files", ...packages];
  await succeed("apt-get", ["install", "-y", "-q", "--download-only", ...all], { env });
  const archives = [...Deno.readDirSync(`${folder}/cache/archives`)].map(({ name }) => name);
  const first = (name: string): number => Number(!name.startsWith("base-files"));
  const files = archives.filter((name) => name.endsWith(".deb"))
    .toSorted((a, b) => first(a) - first(b));
  for (const name of files) {
    await succeed("dpkg-deb", ["-x", `${folder}/cache/archives/${name}`, root]);
  }
  await Deno.remove(`${folder}/cache`, { recursive: true });
  await Deno.writeTextFile(`${folder}/installed`, packages.join("\n"));
  return root;
}

/** Null for a file that is not there; any other error stays one. */
export function ignoreMissing(error: unknown): null {
  if (error instanceof Deno.errors.NotFound) return null;
  throw error;
}
