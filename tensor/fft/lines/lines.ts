/** Transforms of lines: a launch, whose text is written for the device, the length and the layout. */
import {
  callDeviceKernel,
  type DeviceKernel,
  localBytesOf,
  runsInGroups,
} from "../../ops/custom/device_kernel.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { ComplexTensor } from "../../ops/complex_tensor.ts";
import { backendOf, type DeviceHandle, matrixAttributes } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { itemsOf, lineKernel, type LinePlan, widthOf } from "./line_kernel.ts";
import { roomBytes, vectorKernel, type VectorPlan } from "./vector_kernel.ts";

/** Lines of a tensor: samples of `count` of them, one after the other. */
export interface Lines {
  readonly n: number;
  readonly count: number;
  readonly scale: number;
  /** Result k of line l of a sample is turned by -2 π k l / turn; 0 for none. */
  readonly turn: number;
  /** Elements between lines, and between the numbers of a line. */
  readonly reads: readonly [line: number, step: number];
  readonly writes: readonly [line: number, step: number];
}

/** Lines beside each other that a group has at least, so that it fetches neighbours. */
const MIN_ACROSS = 4;
/** Longer lines would keep more numbers in registers than there are. */
const MAX_LINE = 8192;

/** Longer lines would leave the cache of a processor's core. */
const MAX_VECTOR_LINE = 2048;
/** Numbers that are worth a text of their length: a processor's compiler takes half a second for it. */
const MIN_VECTOR_NUMBERS = 2 ** 15;

/** True where OpenCL has a text for lines of the device. */
export function hasLines({ backend }: DeviceHandle): boolean {
  return backend === "cl";
}

/** True if one launch transforms these lines. */
export function isLaunch(
  { dtype, device, size }: ComplexTensor,
  { n, count, reads, writes }: Pick<Lines, "n" | "count" | "reads" | "writes">,
): boolean {
  const isAcross = reads[1] > 1 || writes[1] > 1;
  if (runsInGroups(device)) {
    const numbers = localBytesOf(device) / (dtype === "float64" ? 8 : 4) * 32 / 33 - 1;
    return n <= Math.min(MAX_LINE, Math.floor(isAcross ? numbers / MIN_ACROSS : numbers));
  }
  const lanes = lanesOf(device, dtype), { localMemSize } = device.clDevice!;
  return size >= MIN_VECTOR_NUMBERS && n <= MAX_VECTOR_LINE && Math.min(n, count) >= lanes &&
    roomBytes(n, lanes, dtype as RealType) <= localMemSize;
}

/** Numbers of a vector of a processor. */
function lanesOf(device: DeviceHandle, dtype: string): number {
  const bytes = 4 * Math.max(4, device.clDevice!.query("NATIVE_VECTOR_WIDTH_FLOAT"));
  return Math.min(16, bytes / (dtype === "float64" ? 8 : 4));
}

/** Intel's GPUs share registers among a sub-group's work-items: 128 each in the smallest, half in the next. */
const SUBGROUP_REGISTERS = 128, MANY_REGISTERS = 255;

/** Registers of a work-item, and what the kernel says to have them. */
function registersOn(device: DeviceHandle): Pick<LinePlan, "registers" | "attributes"> {
  const { matrixUnits } = backendOf(device).target;
  const attributes = matrixUnits && matrixAttributes[matrixUnits];
  return attributes
    ? { registers: SUBGROUP_REGISTERS, attributes }
    : { registers: MANY_REGISTERS, attributes: "" };
}

/** The forward transforms; the shape stays that of `x`. */
export function transformLines(
  x: ComplexTensor,
  lines: Lines,
  table: () => readonly Tensor[],
): ComplexTensor {
  const { n, count, scale, turn, reads, writes } = lines, { shape, device } = x;
  const dtype = x.dtype as RealType, samples = x.size / n / count;
  const layout = { dtype, n, readsAcross: reads[1] > 1, writesAcross: writes[1] > 1, turn };
  const numbers = [count, ...reads, ...writes, scale];
  const call = (kernel: DeviceKernel, width: number, tables: readonly Tensor[]) => {
    const outputs = [{ shape, dtype }, { shape, dtype }];
    const groups = samples * Math.ceil(count / width);
    const [real, imag] = callDeviceKernel(
      kernel,
      [x.real, x.imag, ...tables],
      outputs,
      numbers,
      groups,
    );
    return new ComplexTensor(real!, imag!);
  };
  if (!runsInGroups(device)) {
    const lanes = lanesOf(device, dtype),
      plan: VectorPlan = { ...layout, lanes, hasRest: count % lanes !== 0 },
      name = "fourier_vectors";
    const kernel = {
      name,
      key: JSON.stringify(plan),
      items: 1,
      source: () => vectorKernel(name, plan),
    };
    return call(kernel, lanes, table());
  }
  const { maxWorkGroupSize: maxItems } = device.clDevice!;
  const limited = { ...layout, maxItems, ...registersOn(device) };
  const width = widthOf(limited, count, localBytesOf(device)), plan = { ...limited, width };
  const name = "fourier_lines", key = JSON.stringify(plan);
  return call({ name, key, items: itemsOf(plan), source: () => lineKernel(name, plan) }, width, []);
}
