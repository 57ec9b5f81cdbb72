/** Options that every program is built with, beside those of who builds it. */
import type { Context } from "../objects/context.ts";

const argInfo = "-cl-kernel-arg-info";
// Of the info of such a kernel NVIDIA's compiler makes PTX that its own assembler refuses
// (580.159).
const kernelWithoutArguments = /\bkernel\s+void\s+\w+\s*\(\s*(?:void\s*)?\)/;

/**
 * PoCL's clang prints on the program's terminal how many errors it found, unless it draws no carets, which the
 * log lacks anyway. PoCL (3.1) refuses options that it does not know, which it finds by spaces; it takes this
 * one for the value of a macro, and clang for an option: that divides them at tabs, too.
 */
const quiet = "-DNETCL_QUIET=1\t-fno-caret-diagnostics";

const contextsOfPoCL = new WeakMap<Context, boolean>();

function isOfPoCL(context: Context): boolean {
  let isPoCL = contextsOfPoCL.get(context);
  if (isPoCL === undefined) {
    isPoCL = context.devices[0]?.platform.name === "Portable Computing Language";
    contextsOfPoCL.set(context, isPoCL);
  }
  return isPoCL;
}

/** The types of arguments are what plain numbers are converted by. */
function withArgInfo(options: string, source: string): string {
  const skip = options.includes(argInfo) || kernelWithoutArguments.test(source);
  return skip ? options : `${options} ${argInfo}`;
}

/** Options of the caller as a driver is passed them. */
export function passedOptions(options: string, source: string, context: Context): string {
  const all = withArgInfo(options, source);
  return isOfPoCL(context) ? `${all} ${quiet}` : all;
}
