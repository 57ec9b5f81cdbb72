/** Devices that are not here, with what planning knows of them and how their vendor's compiler is called. */
import type { Device } from "../../ffi/mod.ts";
import { buildOptions, driverOf } from "../../backend/opencl/runtime/driver.ts";
import type { MatrixUnits } from "../../backend/kernel/target.ts";
import { type PaperDevice, paperGPU } from "../backend/paper_device.ts";
import type { DebianPackages } from "../systems/debian_folder.ts";

/** A device whose kernels are compiled and cannot run. */
export interface Foreign {
  readonly device: PaperDevice;
  readonly hasDoubles: boolean;
  /** Kernels that may keep values in memory for which there are no registers: so many were seen. */
  readonly maxSpilling: number;
  /** The compiler and its arguments, for a file with OpenCL C, inside the folder of compilers. */
  command(file: string): readonly string[];
  /** Commands that leave the assembly of the same file in a folder. */
  assemble(file: string, folder: string): readonly (readonly string[])[];
  /** The instruction of its matrix units. */
  readonly instruction: RegExp;
  /** The kernels that spill, and how many registers, by what the compiler said. */
  spilling(output: string): readonly (readonly [kernel: string, registers: number])[];
}

/** The options for a GPU of a platform. */
const optionsOn = (name: string): string =>
  buildOptions(
    driverOf({ type: "gpu", platform: { name }, extensions: [] } as unknown as Device),
  );

/** A GPU of Intel's: Xe cores as compute units, the arguments of a kernel in 2,048 bytes. */
function intel(
  name: string,
  computeUnits: number,
  matrixUnits: "dpas8" | "dpas16",
  { hasDoubles, maxSpilling }: Pick<Foreign, "hasDoubles" | "maxSpilling">,
): Foreign {
  const command = (file: string): string[] => [
    "ocloc-26.27.1",
    ...["compile", "-file", file, "-device", name],
    ...["-options", optionsOn("Intel(R) OpenCL Graphics")],
    ...["-out_dir", `${file}.out`, "-output", "kernels", "-output_no_suffix"],
  ];
  return {
    device: paperGPU({ matrixUnits }, { localMemory: 65536, computeUnits, argumentBytes: 2048 }),
    hasDoubles,
    maxSpilling,
    command,
    assemble: (file, folder) => [
      command(file),
      [
        "ocloc-26.27.1",
        "disasm",
        "-file",
        `${file}.out/kernels.bin`,
        "-device",
        name,
        "-dump",
        folder,
      ],
    ],
    instruction: /\bdpas\./,
    spilling: (output) =>
      [...output.matchAll(/in kernel '(\w+)': .* spilled around (\d+)/g)].map((
        [, kernel, count],
      ) => [kernel!, Number(count)]),
  };
}

/** A GPU of AMD's: groups of 256 work-items, 64 KiB of them. */
function amd(
  name: string,
  computeUnits: number,
  matrixUnits: MatrixUnits,
  maxSpilling = 0,
): Foreign {
  const options = optionsOn("AMD Accelerated Parallel Processing");
  const command = (file: string, ...output: string[]): string[] => [
    "clang-21",
    ...["-x", "cl", ...options.split(" "), "-Xclang", "-finclude-default-header"],
    ...["-target", "amdgcn-amd-amdhsa", `-mcpu=${name}`, "-O3", ...output, file],
    "-Rpass-analysis=kernel-resource-usage",
  ];
  return {
    device: paperGPU({ matrixUnits }, {
      localMemory: 65536,
      computeUnits,
      argumentBytes: 4096,
      maxGroup: 256,
    }),
    hasDoubles: true,
    maxSpilling,
    command: (file) => command(file, "-c", "-o", "/dev/null"),
    assemble: (file, folder) => [command(file, "-S", "-o", `${folder}/kernels.s`)],
    instruction: matrixUnits.startsWith("mfma") ? /\bv_mfma_f32_/ : /\bv_wmma_f32_/,
    spilling: (output) =>
      output.split("Function Name: ").slice(1).map((text) =>
        [text.match(/^\w+/)![0], Number(/VGPRs Spill: (\d+)/.exec(text)?.[1])] as const
      ).filter(([, count]) => count > 0),
  };
}

/**
 * The devices by their compilers' names. Kernels that spill on pvc do so by 5 to 8 registers in sub-groups of 32:
 * attention of a training and a convolution of float32 (in sub-groups of 16 the compiler gives attention 128 registers,
 * and 2 to 13 spill); on bmg by 2: products of float64. On dg2 the compiler gives no kernel more registers than others:
 * windows of convolutions spill, on matrix units by 6 to 14, and attention. On gfx1100 and gfx1201 it is a step of
 * Cholesky's factorization in float64, by 40.
 */
export const foreign: Readonly<Record<string, Foreign>> = {
  dg2: intel("dg2", 512, "dpas8", { hasDoubles: false, maxSpilling: 13 }),
  bmg: intel("bmg", 160, "dpas16", { hasDoubles: true, maxSpilling: 2 }),
  pvc: intel("pvc", 1024, "dpas16", { hasDoubles: true, maxSpilling: 3 }),
  gfx90a: amd("gfx90a", 104, "mfma"),
  gfx942: amd("gfx942", 304, "mfma"),
  gfx1100: amd("gfx1100", 48, "wmma", 1),
  gfx1201: amd("gfx1201", 32, "wmma12", 1),
};

/** The compilers, as packages. */
export const compilers: DebianPackages = {
  suite: "sid",
  packages: ["intel-ocloc", "libigc2", "libigdfcl2", "clang-21", "rocm-device-libs-21"],
};
