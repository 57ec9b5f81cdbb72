/** Machines with other drivers beside PoCL, which can make several devices of one processor. */
import { inFolder } from "../temporary_folder.ts";

const vendors = Deno.env.get("OCL_ICD_VENDORS") ?? "/etc/OpenCL/vendors";

/** The file that names PoCL to the loader; null where there is none. */
const icd: string | null = fileOfPoCL();

/** True if programs can be run that see PoCL alone. */
export const hasPoCL: boolean = icd !== null;

function fileOfPoCL(): string | null {
  try {
    const file = [...Deno.readDirSync(vendors)].find(({ name }) => /pocl.*\.icd$/i.test(name));
    return file ? `${vendors}/${file.name}` : null;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory) {
      return null;
    }
    throw error;
  }
}

/**
 * Runs a test with the environment of programs that see two devices of PoCL, and no other platform; nor what
 * NETCL_DEVICE says of this machine's.
 */
export function withTwoDevices(fn: (env: Record<string, string>) => Promise<void>): Promise<void> {
  return inFolder(async (folder) => {
    await Deno.copyFile(icd!, `${folder}/pocl.icd`);
    const env = { OCL_ICD_VENDORS: `${folder}/`, OCL_ICD_FILENAMES: "", NETCL_DEVICE: "auto" };
    await fn({ ...env, POCL_DEVICES: "pthread pthread" });
  });
}
