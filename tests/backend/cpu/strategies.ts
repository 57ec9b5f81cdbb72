/** The strategies of the CPU backend side by side, on the same graphs. */
import { assertEquals } from "@std/assert";
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
import { schedule } from "../../../backend/schedule/schedule.ts";
import type { Tensor } from "../../../mod.ts";
import "../../opencl.ts";
import { bytesOn } from "../evaluate.ts";
import { nodeOf } from "../../../tensor/core/internals.ts";

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

/** The kernels that compute a tensor in WebAssembly, for people to read. */
export function sourcesOf(tensor: Tensor): string[] {
  const kernels = schedule([nodeOf(tensor)]).kernels.map(({ kernel }) => kernel);
  return wasmBackend.prepare(kernels).map(({ source }) => source);
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
    const found = compute(backend, tensor);
    assertEquals(found.length, wanted.length);
    const scale = Math.max(1, ...wanted.map((e) => Math.abs(Number(e))).filter(Number.isFinite));
    const slack = scale * (precision[tensor.dtype] ?? 0);
    found.forEach((value, k) => {
      const same = Object.is(value, wanted[k]) || value === wanted[k] ||
        Math.abs(Number(value) - Number(wanted[k])) <= slack;
      assertEquals(same ? wanted[k] : value, wanted[k], `${backend.strategy.name}: element ${k}`);
    });
  }
}
