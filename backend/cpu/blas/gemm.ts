/** Multiplying matrices of floats by something faster than generated JavaScript. */
import type { TypedArray } from "../../graph/dtype.ts";

/** Floating types that arithmetic happens in. */
export type GemmType = "float32" | "float64";

/** A matrix in a buffer: row-major, or column-major where it is transposed. */
export interface Matrix {
  readonly data: TypedArray;
  /** The first element. */
  readonly offset: number;
  readonly isTransposed: boolean;
  /** Elements from one row (column, if transposed) to the next. */
  readonly leading: number;
}

/** `c = a b`, or `c += a b`: c is m by n, row-major, the sum runs over k. */
export interface Product {
  readonly dtype: GemmType;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  readonly a: Matrix;
  readonly b: Matrix;
  readonly c: Matrix;
}

/** A way to multiply matrices. */
export interface Gemm {
  /** "OpenBLAS", as the device's description has it. */
  readonly name: string;
  readonly types: ReadonlySet<GemmType>;
  /** Fewer multiplications than this do not pay for the call. */
  readonly minProducts: number;
  multiply(product: Product): void;
}
