/** The variables that tell the OpenCL loader where drivers are: one that leads nowhere hides them all. */
import type { Finding } from "./finding.ts";

const names = ["OCL_ICD_VENDORS", "OPENCL_VENDOR_PATH"] as const;
const usual = "/etc/OpenCL/vendors";

/** Errors of those that are set; none where they may not be read. */
export function checkDriverVariables(): Finding[] {
  const mayRead = (["env", "read"] as const).every((name) =>
    Deno.permissions.querySync({ name }).state === "granted"
  );
  if (!mayRead) return [];
  return names.flatMap((name) => {
    const value = Deno.env.get(name);
    const problem = value ? problemOf(value) : null;
    if (problem === null) return [];
    const remedy = `unset ${name}, or set it to a folder of .icd files, such as ${usual}`;
    return [{ subject: "environment", found: `${name}=${value}: ${problem}`, remedy }];
  });
}

/** A value is a folder, an .icd file, the name of one in the usual folder, or a library. */
function problemOf(value: string): string | null {
  const info = statIfThere(value);
  if (info?.isDirectory) return problemOfFolder(value);
  if (value.endsWith(".icd")) {
    const path = info ? value : `${usual}/${value}`;
    return statIfThere(path) ? problemOfIcd(path) : `there is no file ${path}`;
  }
  if (value.includes(".so")) {
    return value.includes("/") && !info ? "there is no such library" : null;
  }
  return info ? "it is neither a folder nor an .icd file" : "there is no such folder";
}

function problemOfFolder(folder: string): string | null {
  const files = [...Deno.readDirSync(folder)].filter(({ name }) => name.endsWith(".icd"));
  if (files.length === 0) return "the folder holds no .icd file";
  const problems = files.map(({ name }) => problemOfIcd(`${folder.replace(/\/$/, "")}/${name}`));
  return problems.includes(null) ? null : problems[0]!;
}

/** An .icd file holds the name of a library, which the system searches for, or its path. */
function problemOfIcd(path: string): string | null {
  const library = Deno.readTextFileSync(path).trim();
  if (library === "") return `${path} names no library`;
  const isThere = !library.startsWith("/") || statIfThere(library) !== null;
  return isThere ? null : `${path} names ${library}, which is not there`;
}

function statIfThere(path: string): Deno.FileInfo | null {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return null;
    }
    throw error;
  }
}
