/**
 * Peculiarities of drivers. Kernels are written in OpenCL C 1.2 that every compiler takes; a
 * form for one driver stands behind a field of this, and is chosen by a macro in the kernel's text.
 */
import type { Device } from "../../../ffi/mod.ts";
import { readSwitch } from "../../../ffi/host/switches.ts";
import type { CustomKernel } from "../../graph/custom.ts";
import { WITHOUT_HEADER } from "../codegen/builtins.ts";
import type { GateKind } from "../transfers/gates.ts";
import { hasMma } from "./matrix_units.ts";

/** The particulars of one device's driver. */
export interface Driver {
  /**
   * Its compiler is clang as far as machine code, so that clang's builtins become instructions. Where
   * clang only makes SPIR-V, its translator ends the process at what has no place there: Mesa's rusticl
   * 22.3 at `__builtin_prefetch` and `__builtin_reduce_or`.
   */
  readonly clangBuiltins: boolean;
  /**
   * A CPU whose work-items are lanes of a vector, as on a GPU: Mesa's llvmpipe. Kernels that are written
   * in vectors leave all lanes but one idle there (a product of 256 by 256: 3 s).
   */
  readonly itemsAreLanes: boolean;
  /** Mesa's llvmpipe computes `(long)i < constant` as false, whatever the int `i` is. */
  readonly widensByHalves: boolean;
  /**
   * PoCL compiles every kernel once more to give a binary: 0.14 to 0.8 s each, where the binary saves a
   * start 5 ms a program, since PoCL keeps what it compiled on disk by itself (POCL_CACHE_DIR). It is
   * asked for a few at the end of each start. Other drivers have binaries at hand after a build.
   */
  readonly compilesForBinary: boolean;
  /**
   * A process builds one program at a time, whatever its threads do, and that takes long: NVIDIA's
   * (580.159) 0.05 to 1 s for a kernel. Several processes do it side by side.
   */
  readonly buildsOneAtATime: boolean;
  /**
   * A kernel takes a CPU's clang 0.05 to 1 s, and the device computes at the rate of the host: until
   * it is compiled, the host computes it.
   */
  readonly compilesSlowly: boolean;
  /** PoCL compiles three copies of a kernel: see `opencl/codegen/outlined_kernel.ts`. */
  readonly copiesKernels: boolean;
  /** It reads all declarations of OpenCL C before each program: see `opencl/codegen/builtins.ts`. */
  readonly readsHeader: boolean;
  /**
   * Form of gates. NVIDIA's driver (580.159) hands commands that wait for a user event to a thread of its own,
   * which reads freed memory while this one makes kernels: under load one start of two ranks in three ended in
   * a segmentation fault, whatever the host kept alive. A kernel that waits is on the queue of all others there:
   * kernels of all queues of a context run one after the other (one on another queue began when the waiting
   * one gave up after 0.4 s; copies went on), and two ranks whose kernels waited so on queues of their own, before
   * what the other needed, never went on. Nor is a context of two devices a way: what one copies to the other
   * goes through the host at 1 GB/s, in the call that enqueues it.
   */
  readonly gates: GateKind;
  /**
   * A kernel may use a memory object of which it is told the address alone, and a launch costs less so: see
   * `opencl/codegen/addressed_kernel.ts`. NETCL_ADDRESSES=0 turns that off.
   */
  readonly takesAddresses: boolean;
  /** Inline PTX has an instruction that rounds to bfloat16; in OpenCL C that takes seven. */
  readonly roundsToBfloat16: boolean;
  /** Its compiler may give a kernel twice the registers for half the threads, if it is told: Intel's of GPUs. */
  readonly growsRegisters: boolean;
}

/** Description of a device's driver. */
export function driverOf(device: Device): Driver {
  const isPoCL = device.platform.name === "Portable Computing Language";
  const isNvidia = device.platform.name === "NVIDIA CUDA";
  const takesAddresses = readSwitch("NETCL_ADDRESSES") ?? (isNvidia && !device.hostUnifiedMemory);
  // PoCL's drivers of GPUs go by way of PTX and SPIR-V.
  return {
    clangBuiltins: isPoCL && device.type === "cpu",
    itemsAreLanes: device.platform.name === "rusticl",
    widensByHalves: device.platform.name === "rusticl",
    compilesForBinary: isPoCL,
    buildsOneAtATime: isNvidia,
    // What compiles meanwhile launches kernels over nothing, of which there is no address.
    compilesSlowly: isPoCL && device.type === "cpu" && !takesAddresses,
    takesAddresses,
    copiesKernels: isPoCL && device.type === "cpu",
    readsHeader: isPoCL && device.type === "cpu",
    gates: isNvidia ? "kernels" : "events",
    roundsToBfloat16: isNvidia && hasMma(device),
    growsRegisters: device.platform.name.startsWith("Intel(R) OpenCL") && device.type === "gpu",
  };
}

/** The version of OpenCL C that kernels are written in. */
const STANDARD = "-cl-std=CL1.2";

/**
 * A kernel whose values would be kept in memory gets 256 registers instead of 128, where its groups still have room.
 * Of 1,142 kernels for a GPU Max (pvc) 50 keep some in memory without, 8 with it; of 1,144 for a B580 (bmg) 9 and
 * 2 (ocloc 26.27). Sub-groups of 16 for all leave 20 of the GPU Max's. For an A770 (dg2) it changes nothing.
 */
const GROWING_REGISTERS = "-cl-intel-enable-auto-large-GRF-mode";

/** Options without which a program is built where it was refused with them: an older driver does not know one. */
const dispensable: readonly string[] = [WITHOUT_HEADER, GROWING_REGISTERS];

/** The options that a program cannot do without. */
export function indispensable(options: string): string {
  return options.split(" ").filter((option) => !dispensable.includes(option)).join(" ");
}

/**
 * The options of a kernel that came as a text, behind which its own stand. The library's have groups of at most
 * 512 work-items, and call what can be declared; a user's may need more threads than there are with more registers.
 */
export function optionsOfText(
  { growsRegisters, readsHeader }: Driver,
  { buildOptions: own, batched }: Pick<CustomKernel, "buildOptions" | "batched">,
): string {
  const isOurs = batched !== null;
  const all = [
    !own.includes("-cl-std") && STANDARD,
    isOurs && growsRegisters && GROWING_REGISTERS,
    isOurs && readsHeader && WITHOUT_HEADER,
    own,
  ];
  return all.filter((option) => option).join(" ");
}

/**
 * The options that programs are built with. Compilers print on the terminal how often they warned of
 * generated text, such as of the test for NaN where whole numbers are compared: they warn of nothing.
 */
export function buildOptions(driver: Driver): string {
  const { clangBuiltins, widensByHalves, readsHeader, roundsToBfloat16, growsRegisters } = driver;
  const common = `${STANDARD} -w -cl-mad-enable`;
  const forms = [
    // Where the built-in backend serves while kernels are built, both have the same bits.
    !clangBuiltins && "-cl-no-signed-zeros",
    clangBuiltins && "-DCLANG_BUILTINS",
    widensByHalves && "-DWIDENS_BY_HALVES",
    readsHeader && WITHOUT_HEADER,
    roundsToBfloat16 && "-DROUNDS_TO_BFLOAT16",
    growsRegisters && GROWING_REGISTERS,
  ];
  return [common, ...forms.flatMap((form) => form ? [form] : [])].join(" ");
}
