/** The strategies of the CPU backend side by side, on the same graphs. */
import { systemBLAS } from "../../../backend/cpu/blas/blas.ts";
import { CPUBackend } from "../../../backend/cpu/cpu_backend.ts";
import {
  referenceStrategy,
  scriptStrategy,
  type Strategy,
  strategyWith,
} from "../../../backend/cpu/strategy/strategy.ts";
import type { Gemm, Matrix } from "../../../backend/cpu/blas/gemm.ts";
import { DeviceHandle } from "../../../backend/devices/device_handle.ts";
import { type DType, dtypes, fromBfloat16Bits } from "../../../backend/graph/dtype.ts";
import { noGrad, Tensor } from "../../../mod.ts";
import "../../opencl.ts";
import { bytesOn } from "../evaluate.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";
import { assertNear, scaleOf } from "../near.ts";
import { kernelsOf } from "../loop_kernels.ts";

/** A backend that computes in one way, whatever the system has. */
export function backendWith(strategy: Strategy): CPUBackend {
  return new CPUBackend(DeviceHandle.forHost("cpu"), strategy);
}

/** The plain evaluator. */
export const reference = backendWith(referenceStrategy);

const blas = systemBLAS();

/** The BLAS of this machine, or null. */
export const blasBackend = blas && backendWith(strategyWith(blas));

/** Generated WebAssembly. */
export const wasmBackend = backendWith(strategyWith(null));

/** Products by plain loops, however small: they show that the matrices were found where they are. */
const loops: Gemm = {
  name: "loops",
  types: new Set(["float32", "float64"]),
  minProducts: 1,
  multiply({ m, n, k, a, b, c }) {
    const at = ({ isTransposed, offset, leading }: Matrix, i: number, j: number): number =>
      offset + (isTransposed ? j * leading + i : i * leading + j);
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let l = 0; l < k; l++) {
          sum += Number(a.data[at(a, i, l)]) * Number(b.data[at(b, l, j)]);
        }
        c.data[at(c, i, j)] = sum;
      }
    }
  },
};

/** Strategies that are held against the reference, by name. */
export const fast: readonly CPUBackend[] = [
  backendWith(scriptStrategy),
  backendWith(strategyWith(loops)),
  wasmBackend,
  ...(blasBackend ? [blasBackend] : []),
];

/** Numbers with few digits, in memory; `seed` tells tensors apart. */
export function filled(shape: readonly number[], dtype: DType = "float32", seed = 0): Tensor {
  const size = shape.reduce((a, b) => a * b, 1);
  const values = Float64Array.from({ length: size }, (_, k) => ((k + seed) * 7919 % 23 - 11) / 4);
  return Tensor.fromHost(values, { shape }).cast(dtype).realize();
}

/** Normal numbers, in memory. */
export function normal(shape: readonly number[], dtype: DType = "float32"): Tensor {
  return noGrad(() => Tensor.randn([...shape]).cast(dtype).realize());
}

/** The same tensor, whose gradient is wanted. */
export function learned(tensor: Tensor): Tensor {
  tensor.requiresGrad = true;
  return tensor;
}

/** The kernels that compute a tensor in WebAssembly, for people to read. */
export function sourcesOf(tensor: Tensor, backend = wasmBackend): string[] {
  return backend.prepare(kernelsOf(() => tensor)).map(({ source }) => source);
}

/** The elements of a tensor as plain numbers. */
export function numbersOf(tensor: Tensor, backend = wasmBackend): number[] {
  return compute(backend, tensor).map(Number);
}

/** The elements of a tensor that is not in memory yet, as one backend computes them. */
export function compute(backend: CPUBackend, tensor: Tensor): (number | bigint)[] {
  const { buffer } = bytesOn(backend, nodeOf(tensor));
  const elements = [
    ...dtypes[tensor.dtype].view(buffer, 0, tensor.size) as Iterable<number | bigint>,
  ];
  return tensor.dtype === "bfloat16" ? elements.map((e) => fromBfloat16Bits(Number(e))) : elements;
}

const precision: Partial<Record<DType, number>> = {
  float32: 2e-6,
  float64: 1e-13,
  float16: 2e-3,
  bfloat16: 1e-2,
};

/** Fails where a strategy differs from the reference by more than the order of a sum explains. */
export function assertAgree(make: () => Tensor): void {
  using expected = make();
  const wanted = compute(reference, expected);
  for (const backend of fast) {
    using tensor = make();
    const slack = scaleOf(wanted) * (precision[tensor.dtype] ?? 0);
    assertNear(compute(backend, tensor), wanted, slack, backend.strategy.name);
  }
}
