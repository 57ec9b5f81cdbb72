/**
 * Names of OpenCL's loader on each system, and the folders in which it lies.
 *
 * @module
 */
import type { Host } from "../runtime/types.ts";

/** Systems that have names of their own; others have those of Linux. */
type System = "linux" | "darwin" | "windows";

/** The loader on a system. */
export interface LibraryPlace {
  /** Names or paths to open, the best first: the system's own search finds a name. */
  readonly names: readonly string[];
  /**
   * Folders to try where `--allow-ffi` names files: a flag with a bare name means a file in the working folder.
   *
   * @param arch The processor, as Linux calls it.
   */
  folders(arch: string): readonly string[];
  /** Sign between a folder and a name. */
  readonly separator: "/" | "\\";
  /** `RTLD_NOW | RTLD_NODELETE` of its `dlopen`; 0 where there is none. */
  readonly keepLoaded: number;
  /** The remedy where there is no loader. */
  readonly remedy: string;
}

/** The table. */
export const libraryPlaces: Readonly<Record<System, LibraryPlace>> = {
  linux: {
    names: ["libOpenCL.so.1", "libOpenCL.so"],
    folders: (arch) => [
      `/usr/lib/${arch}-linux-gnu`,
      `/lib/${arch}-linux-gnu`,
      "/usr/lib64",
      "/usr/lib",
      "/usr/local/lib",
    ],
    separator: "/",
    keepLoaded: 0x1002,
    remedy: "install an OpenCL loader and a driver, such as ocl-icd-libopencl1 and pocl-opencl-icd",
  },
  darwin: {
    names: ["/System/Library/Frameworks/OpenCL.framework/OpenCL"],
    folders: () => [],
    separator: "/",
    keepLoaded: 0x82,
    remedy: "macOS brings OpenCL with it: check the path above",
  },
  windows: {
    names: ["OpenCL.dll"],
    // Drivers of GPUs put it there, as PoCL does not.
    folders: () => ["C:\\Windows\\System32"],
    separator: "\\",
    keepLoaded: 0,
    remedy: "install the driver of your GPU, or PoCL for the CPU",
  },
};

/** The loader on the system of a host. */
export const libraryPlaceOf = ({ os }: Pick<Host, "os">): LibraryPlace =>
  libraryPlaces[os as System] ?? libraryPlaces.linux;

/** The files that a system's names may be, where a permission is for files. */
export function libraryFiles(
  { folders, separator }: LibraryPlace,
  names: readonly string[],
  arch: string,
): string[] {
  return names.flatMap((name) =>
    /[\\/]/.test(name) ? [name] : folders(arch).map((folder) => `${folder}${separator}${name}`)
  );
}
