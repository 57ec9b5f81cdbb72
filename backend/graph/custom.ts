/** Kernels that a user wrote: what they are, and one call of them. */
import type { DType, TypedArray } from "./dtype.ts";
import type { KernelDeclaration } from "./kernel_declaration.ts";
import type { Shape } from "./shape.ts";

/** A kernel of a user's own; there is one for all its calls. */
export interface CustomKernel {
  /** Its name in the source, in traces and in errors. */
  readonly name: string;
  /** Tells it from others of the same name. */
  readonly id: number;
  /** OpenCL C; empty for a kernel of the built-in backend alone. */
  readonly source: string;
  /** Options for the compiler beside those that all kernels are built with. */
  readonly buildOptions: string;
  /** Declaration in the source; null where there is none. */
  readonly declaration: KernelDeclaration | null;
  /** The same on the host. */
  readonly cpu:
    | ((inputs: TypedArray[], outputs: TypedArray[], numbers: number[]) => void)
    | null;
  /**
   * Of a kernel that does the same for each element of leading axes, in work-groups one after the other
   * along the first dimension: the inputs that have these axes. Null where nothing is known.
   */
  readonly batched: readonly boolean[] | null;
  /** The same as a `MatrixProgram`, which only the built-in backend looks into; null for what a user wrote. */
  readonly program: object | null;
}

/** One call. It gives several nodes where the kernel has several outputs; they share this object. */
export interface CustomCall {
  /** Of what. */
  readonly kernel: CustomKernel;
  /** Its numbers. */
  readonly numbers: readonly number[];
  /** Shapes and types of results. */
  readonly outputs: readonly { readonly shape: Shape; readonly dtype: DType }[];
  /** Work-items in each dimension. */
  readonly global: readonly number[];
  /** Work-items of a group; null where the driver chooses. */
  readonly local: readonly number[] | null;
}
