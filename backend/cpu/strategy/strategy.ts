/**
 * Choice of the built-in backend's strategy.
 *
 * This folder (`strategy/`) is apart so that `devices/` can name the choice without the backend. It
 * imports `blas/`, the threads of `wasm/` and `ffi/host/` (NETCL_CPU), and gives a strategy to
 * `cpu_backend.ts`.
 */
import { EnvironmentError, readEnvironment } from "../../../ffi/host/environment.ts";
import { systemBLAS } from "../blas/blas.ts";
import type { Gemm } from "../blas/gemm.ts";
import { type WasmRuntime, wasmRuntime } from "../wasm/runtime.ts";

/** Strategy of the built-in backend. */
export interface Strategy {
  /** "OpenBLAS 0.3.21, WebAssembly SIMD", "reference": what a person is told. */
  readonly name: string;
  /** Kernels are interpreted, nothing is generated. */
  readonly isReference: boolean;
  /** Multiplies large matrices; null: generated JavaScript. */
  readonly gemm: Gemm | null;
  /** Runs loops; null: generated JavaScript. */
  readonly wasm: WasmRuntime | null;
}

/** The plain evaluator. */
export const referenceStrategy: Strategy = {
  name: "reference",
  isReference: true,
  gemm: null,
  wasm: null,
};

/** Generated JavaScript alone. */
export const scriptStrategy: Strategy = {
  name: "JavaScript",
  isReference: false,
  gemm: null,
  wasm: null,
};

/** WebAssembly where it is to be had, else generated JavaScript; and something for large matrices. */
export function strategyWith(gemm: Gemm | null): Strategy {
  const wasm = wasmRuntime();
  const names = [gemm?.name, wasm ? "WebAssembly SIMD" : gemm ? undefined : "JavaScript"];
  const name = names.filter((part) => part !== undefined).join(", ");
  return { name, isReference: false, gemm, wasm };
}

/**
 * The strategy that NETCL_CPU asks for, or else the fastest one that there is.
 *
 * @throws {RangeError} When NETCL_CPU holds anything but "fast", "wasm" or "reference".
 */
export function chooseStrategy(): Strategy {
  const wanted = readEnvironment("NETCL_CPU") ?? "fast";
  if (wanted === "reference") return referenceStrategy;
  if (wanted !== "fast" && wanted !== "wasm") {
    throw new EnvironmentError("NETCL_CPU", wanted, 'write "fast", "wasm" or "reference"');
  }
  return strategyWith(wanted === "fast" ? systemBLAS() : null);
}

/** The name of that strategy, for descriptions of the device. */
export const strategyName = (): string => chooseStrategy().name;
