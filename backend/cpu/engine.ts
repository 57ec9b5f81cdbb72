/** Which of the ways to compute serves the built-in backend. */
import { readEnvironment } from "../../ffi/environment.ts";
import { systemBLAS } from "./blas.ts";
import type { Gemm } from "./gemm.ts";
import { wasmGemm } from "./wasm_gemm.ts";

/** How the built-in backend computes. */
export interface Engine {
  /** "OpenBLAS", "reference": what a person is told. */
  readonly name: string;
  /** Kernels are interpreted, nothing is generated. */
  readonly isReference: boolean;
  /** What multiplies large matrices; null: generated JavaScript. */
  readonly gemm: Gemm | null;
}

/** The plain evaluator. */
export const referenceEngine: Engine = { name: "reference", isReference: true, gemm: null };

/** Generated JavaScript alone. */
export const scriptEngine: Engine = { name: "JavaScript", isReference: false, gemm: null };

/** Generated JavaScript, and something faster for large matrices. */
export function engineWith(gemm: Gemm): Engine {
  return { name: gemm.name, isReference: false, gemm };
}

/**
 * The engine that NETCL_CPU asks for, or else the fastest one that there is.
 *
 * @throws {RangeError} When NETCL_CPU holds anything but "reference" or "fast".
 */
export function chooseEngine(): Engine {
  const wanted = readEnvironment("NETCL_CPU") ?? "fast";
  if (wanted === "reference") return referenceEngine;
  if (wanted !== "fast") {
    throw new RangeError(`NETCL_CPU is "${wanted}": write "reference" or "fast"`);
  }
  return engineWith(systemBLAS() ?? wasmGemm());
}

/** The name of that engine, for descriptions of the device. */
export function engineName(): string {
  return chooseEngine().name;
}
