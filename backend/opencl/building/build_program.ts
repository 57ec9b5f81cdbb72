/**
 * Programs from source, in this process or in helpers beside it: NVIDIA's driver builds one program at
 * a time in a process.
 *
 * This folder (`building/`) imports ffi, `lifecycle/` and the lifting of instructions of
 * `opencl/codegen`. Texts come from `opencl/runtime`, which keeps the programs and their binaries.
 */
import {
  type Context,
  type Device,
  KernelBuildError,
  OpenCLError,
  Program,
} from "../../../ffi/mod.ts";
import { withoutDeadline } from "../../lifecycle/native_handlers.ts";
import { liftInstructions, refuseInstructions } from "../codegen/units/warpgroup_helpers.ts";

/** A program to be built. */
export interface ProgramSource {
  /** OpenCL C. */
  readonly text: string;
  /** Options of the compiler. */
  readonly options: string;
  /** Instructions that the compiler does not know stand in comments: see `codegen/units/warpgroup_helpers.ts`. */
  readonly isLifted: boolean;
}

/**
 * Builds a program.
 *
 * @returns The caller's to release.
 * @throws {KernelBuildError} If the compiler refuses it.
 */
export function buildProgram(
  context: Context,
  device: Device,
  { text, options, isLifted }: ProgramSource,
): Program {
  if (!isLifted) return built(new Program(context, text), options);
  const ptx = ptxOf(context, device, text, options);
  const binary = new TextEncoder().encode(liftInstructions(ptx));
  return built(Program.fromBinary(context, device, binary), options);
}

/**
 * The PTX of a program whose instructions stand in comments. The assembler is made to refuse it at
 * once: machine code of this form is of no use, and takes it as long as the compiler needs for the PTX.
 */
function ptxOf(context: Context, device: Device, text: string, options: string): string {
  const refused = new Program(context, refuseInstructions(text));
  try {
    const ptx = refusedPtx(refused, device, options);
    if (ptx !== null) return ptx;
  } finally {
    refused.release();
  }
  // The text is wrong, which this says, or the driver keeps no PTX of what failed.
  const program = built(new Program(context, text), options);
  try {
    return decode(program.binary(device));
  } finally {
    program.release();
  }
}

/** PTX of a program that the assembler refused; null where the compiler made nothing. */
function refusedPtx(program: Program, device: Device, options: string): string | null {
  try {
    withoutDeadline(() => program.build(options));
  } catch (error) {
    if (!(error instanceof KernelBuildError)) throw error;
  }
  try {
    return decode(program.binary(device));
  } catch (error) {
    if (error instanceof RangeError || error instanceof OpenCLError) return null;
    throw error;
  }
}

const decode = (binary: Uint8Array): string => new TextDecoder().decode(binary);

/** Builds a program; releases it where that fails. */
function built(program: Program, options: string): Program {
  try {
    withoutDeadline(() => program.build(options));
    return program;
  } catch (error) {
    program.release();
    throw error;
  }
}
