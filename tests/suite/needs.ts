/** Programs and files that some tests need beside Deno: what is missing is named, or installed. */
import { hasOclgrind } from "../oclgrind/oclgrind.ts";
import { hasOpenCL, installPackages } from "./opencl.ts";

/** Something that a machine may lack. */
export interface Need {
  /** The noun by which it is named. */
  readonly name: string;
  /** Debian's packages that bring it. */
  readonly packages: readonly string[];
  /** Small packages are installed on a fresh machine; large ones are only named. */
  readonly isSmall: boolean;
  isThere(): boolean | Promise<boolean>;
}

/** Folders that commands are looked for in. */
function path(): string[] {
  return (Deno.env.get("PATH") ?? "").split(Deno.build.os === "windows" ? ";" : ":");
}

/** The path of the first of some commands that this machine has, or null. */
export function findCommand(...names: readonly string[]): string | null {
  const found = path().flatMap((folder) => names.map((name) => `${folder}/${name}`)).find(isFile);
  return found ?? null;
}

function isFile(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    const isElsewhere = error instanceof Deno.errors.NotFound ||
      error instanceof Deno.errors.NotADirectory || error instanceof Deno.errors.PermissionDenied;
    if (!isElsewhere) throw error;
    return false;
  }
}

const command = (name: string) => (): boolean => findCommand(name) !== null;

/** Names of browsers that a test of examples/serve.ts can drive. */
export const browsers = ["chromium", "chromium-browser", "google-chrome"] as const;

const poclPackages = ["pocl-opencl-icd", "ocl-icd-libopencl1"] as const;

/** Everything that a test may need, and the tests of oclgrind that `deno task test` does not run. */
export const needs: readonly Need[] = [
  { name: "an OpenCL platform", packages: poclPackages, isSmall: true, isThere: hasOpenCL },
  {
    name: "the OpenCL headers",
    packages: ["opencl-c-headers"],
    isSmall: true,
    isThere: () => isFile("/usr/include/CL/cl.h"),
  },
  { name: "clinfo", packages: ["clinfo"], isSmall: true, isThere: command("clinfo") },
  { name: "mpirun", packages: ["openmpi-bin"], isSmall: true, isThere: command("mpirun") },
  { name: "script", packages: ["bsdutils"], isSmall: true, isThere: command("script") },
  {
    name: "oclgrind (tests/oclgrind/check.ts)",
    packages: ["oclgrind"],
    isSmall: false,
    isThere: hasOclgrind,
  },
  {
    name: "a browser",
    packages: ["chromium"],
    isSmall: false,
    isThere: () => findCommand(...browsers) !== null,
  },
];

/** Those that this machine lacks. */
export async function missing(all: readonly Need[]): Promise<Need[]> {
  const there = await Promise.all(all.map((need) => need.isThere()));
  return all.filter((_, at) => !there[at]);
}

/**
 * The needs that this machine lacks. A fresh machine, one without OpenCL, first gets all that is small;
 * nobody else's machine is changed.
 */
export async function provide(all: readonly Need[]): Promise<readonly Need[]> {
  const lacking = await missing(all);
  if (!lacking.some(({ packages }) => packages.includes(poclPackages[0]))) return lacking;
  const small = lacking.filter(({ isSmall }) => isSmall);
  console.log(`This machine lacks ${small.map(({ name }) => name).join(", ")}.`);
  const isDone = await installPackages(small.flatMap(({ packages }) => packages));
  return isDone ? await missing(lacking) : lacking;
}

/**
 * The last line of a run: how many tests were left out, and what to install for them.
 *
 * @param ignored Of `all` tests, those that did not run.
 * @param tested The backend whose tests an earlier run has passed: see `tests/opencl.ts`.
 */
export function leftOut(
  ignored: number,
  all: number,
  lacking: readonly Need[],
  tested: string | undefined = Deno.env.get("NETCL_TESTED"),
): string {
  const repeated = tested
    ? `, with those of "${tested}", which NETCL_TESTED names, beside files that ask no device for anything`
    : "";
  const what = `${ignored} of ${all} tests were left out${repeated}`;
  if (lacking.length === 0) {
    return ignored === 0
      ? "No test was left out."
      : `${what}: they are for other systems and drivers.`;
  }
  const names = lacking.map(({ name }) => name).join(", ");
  const packages = lacking.flatMap(({ packages }) => packages).join(" ");
  return `${what}. This machine lacks ${names}: apt install ${packages} (Debian, Ubuntu).`;
}
