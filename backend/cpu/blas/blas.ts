/**
 * The system's BLAS. It is opened at the first need, where opening libraries is permitted already,
 * and stays open: its threads live as long as the process.
 *
 * This folder (`blas/`) imports `script/`, `kernel/` and `graph/`. Contractions come from
 * `cpu_backend.ts`; matrices go to the library, what does not fit it goes to the loops of
 * `script/`.
 */
import { host } from "../../../ffi/runtime/host.ts";
import type { TypedArray } from "../../graph/dtype.ts";
import type { ForeignSymbols } from "../../../ffi/runtime/types.ts";
import type { Gemm, Matrix, Product } from "./gemm.ts";

const gemm = (scalar: "f32" | "f64") =>
  ({
    parameters: [
      ...["i32", "i32", "i32", "i32", "i32", "i32"] as const,
      scalar,
      ...["buffer", "i32", "buffer", "i32"] as const,
      scalar,
      ...["buffer", "i32"] as const,
    ],
    result: "void",
  }) as const;

const functions = {
  cblas_sgemm: gemm("f32"),
  cblas_dgemm: gemm("f64"),
  openblas_get_config: { parameters: [], result: "u64", optional: true },
} as const;

type BlasFunctions = ForeignSymbols<typeof functions>;

/** Libraries known to be fast; a plain libblas may be the reference one, slower than JavaScript. */
const candidates: Partial<Record<string, readonly (readonly [string, string])[]>> = {
  linux: [["OpenBLAS", "libopenblas.so.0"], ["OpenBLAS", "libopenblas.so"]],
  darwin: [["Accelerate", "/System/Library/Frameworks/Accelerate.framework/Accelerate"]],
  windows: [["OpenBLAS", "libopenblas.dll"]],
};

const ROW_MAJOR = 101, NO_TRANSPOSE = 111, TRANSPOSE = 112;

let opened: Gemm | null | undefined;

/** The system's BLAS, or null where there is none to be had; nobody is asked for a permission. */
export function systemBLAS(): Gemm | null {
  if (opened !== undefined) return opened;
  if (!host.isGranted({ name: "ffi" })) return null;
  for (const [name, path] of candidates[host.os] ?? []) {
    const symbols = open(path);
    if (symbols) return opened = new BLAS(nameOf(name, symbols), symbols);
  }
  return opened = null;
}

/** With the version, where the library tells it: "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ...". */
function nameOf(name: string, { openblas_get_config }: BlasFunctions): string {
  const config = openblas_get_config?.();
  if (!config) return name;
  const version = /^OpenBLAS (\d[\w.]*)/.exec(host.cString(config));
  return version ? `${name} ${version[1]}` : name;
}

function open(path: string): BlasFunctions | null {
  try {
    return host.dlopen(path, functions).symbols;
  } catch (error) {
    const isMissing = error instanceof Error &&
      /^(Could not open library|Failed to register symbol)/.test(error.message);
    if (isMissing) return null;
    throw error;
  }
}

class BLAS implements Gemm {
  readonly name: string;
  readonly types = new Set(["float32", "float64"] as const);
  // A call costs about a microsecond: as much as this many products in JavaScript.
  readonly minProducts = 4096;
  readonly #symbols: BlasFunctions;

  constructor(name: string, symbols: BlasFunctions) {
    this.name = name;
    this.#symbols = symbols;
  }

  multiply({ dtype, m, n, k, a, b, c }: Product): void {
    const { cblas_sgemm, cblas_dgemm } = this.#symbols;
    const call = dtype === "float64" ? cblas_dgemm : cblas_sgemm;
    const [x, y, z] = [a, b, c].map(({ data, offset }) => data.subarray(offset)) as [
      TypedArray,
      TypedArray,
      TypedArray,
    ];
    // deno-fmt-ignore -- one line an operand, as in the C header
    call(
      ROW_MAJOR, order(a), order(b), m, n, k,
      1, x, a.leading, y, b.leading,
      0, z, c.leading,
    );
  }
}

const order = ({ isTransposed }: Matrix): number => isTransposed ? TRANSPOSE : NO_TRANSPOSE;
