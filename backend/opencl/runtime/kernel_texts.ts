/** Texts of kernels as a driver takes them, their names, and programs of several. */
import { addressedKernel, wordsOf } from "../codegen/addressed_kernel.ts";
import { type Generated, namedKernel } from "../codegen/generated.ts";
import { canOutline, outlinedKernel } from "../codegen/outlined_kernel.ts";
import { preludeFor } from "../codegen/prelude.ts";
import { hashText } from "./cache_folder.ts";
import type { Driver } from "./driver.ts";

/** A kernel to be compiled: its parameter list and body, and what to call it. */
export interface KernelText {
  readonly source: string;
  readonly label: string;
  /** The same in pieces, for drivers that take the body, or the arguments, in another form. */
  readonly generated?: Generated;
}

/** A kernel in the form that suits a driver. */
export function kernelTextFor(text: KernelText, driver: Driver): string {
  const name = kernelName(text), { generated } = text;
  if (driver.takesAddresses && generated) return addressedKernel(name, generated);
  if (driver.copiesKernels && generated && canOutline(generated)) {
    return outlinedKernel(name, generated);
  }
  return namedKernel(name, text.source);
}

/** The number of words that such a kernel takes; 0 where it takes memory objects. */
export function wordsIn({ generated }: KernelText, { takesAddresses }: Driver): number {
  return takesAddresses && generated ? wordsOf(generated) : 0;
}

/** A name that a person can read in a trace, and that no other text has. */
export function kernelName({ label, source }: KernelText): string {
  return `${label.replace(/\W+/g, "_").slice(0, 48)}_${hashText(source).slice(0, 8)}`;
}

/** A program of kernels, behind what they need. */
export function programText(kernels: readonly string[], declares: boolean): string {
  const bodies = kernels.join("\n\n");
  const prelude = preludeFor(bodies, declares);
  return prelude ? `${prelude}\n\n${bodies}` : bodies;
}
