/** Transforms of lines: a launch, whose text is written for the device, the length and the layout. */
import {
  callDeviceKernel,
  localBytesOf,
  registerAttributes,
  runsInGroups,
} from "../../ops/custom/device_kernel.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import type { DeviceHandle, Shape } from "../../../backend/internal.ts";
import type { Tensor } from "../../core/mod.ts";
import { lineKernel } from "./line_kernel.ts";
import {
  type Ends,
  type Extent,
  type Form,
  groupsOf,
  itemsOf,
  type LinePlan,
  radicesOf,
  roomsOf,
  widthOf,
} from "./line_plan.ts";
import { roomBytes, vectorKernel, type VectorPlan } from "./vector_kernel.ts";

/** Lines: samples of `count` of them, one after the other. */
export interface Lines {
  readonly n: number;
  readonly count: number;
  readonly samples: number;
  readonly scale: number;
  /** Result k of line l of a sample is turned by -2 π k l / turn; 0 for none. */
  readonly turn: number;
  /** Elements between lines, between the numbers of a line, and between samples. */
  readonly reads: Layout;
  readonly writes: Layout;
  /** As of {@linkcode Ends}; default: parts, and lines as they are. */
  readonly from?: Form;
  readonly to?: Form;
  readonly readsHalf?: boolean;
  readonly extent?: Extent;
  /** The columns that a row of the results has, for `extent` "both". */
  readonly columns?: number;
  /** The shape of the results. */
  readonly shape: Shape;
}

/** Distances of lines, of the numbers of a line, and of samples. */
export type Layout = readonly [line: number, step: number, sample: number];

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

/** True if one launch transforms these lines of tensors like this one. */
export function isLaunch({ dtype, device }: Tensor, lines: Lines): boolean {
  const { n, count, samples, reads, writes } = lines;
  if (n < 2 || radicesOf(n) === null) return false;
  const isAcross = reads[1] > 1 || writes[1] > 1;
  if (runsInGroups(device)) {
    const numbers = localBytesOf(device) / (dtype === "float64" ? 8 : 4) * 32 / 33 - 1;
    return n <= Math.min(MAX_LINE, Math.floor(isAcross ? numbers / MIN_ACROSS : numbers));
  }
  const lanes = lanesOf(device, dtype), { localMemSize } = device.clDevice!;
  return n * count * samples >= MIN_VECTOR_NUMBERS && n <= MAX_VECTOR_LINE &&
    Math.min(n, count) >= lanes && roomBytes(n, lanes, dtype as RealType) <= localMemSize;
}

/** Numbers of a vector of a processor. */
function lanesOf(device: DeviceHandle, dtype: string): number {
  const bytes = 4 * Math.max(4, device.clDevice!.query("NATIVE_VECTOR_WIDTH_FLOAT"));
  return Math.min(16, bytes / (dtype === "float64" ? 8 : 4));
}

/** Registers of a work-item of Intel's GPUs, in their smallest sub-groups, and of others. */
const SUBGROUP_REGISTERS = 128, MANY_REGISTERS = 255;

/**
 * The forward transforms.
 *
 * @param inputs Parts, or the one tensor that has reals or pairs.
 * @returns Parts likewise.
 */
export function transformLines(
  inputs: readonly Tensor[],
  lines: Lines,
  table: () => readonly Tensor[],
): Tensor[] {
  const { n, count, samples, scale, turn, reads, writes, shape, columns = 0 } = lines;
  const { from = "parts", to = "parts", readsHalf = false, extent = "line" } = lines;
  const [{ device, dtype: type }] = inputs as [Tensor], dtype = type as RealType;
  const ends: Ends = {
    readsAcross: reads[1] > 1,
    writesAcross: writes[1] > 1,
    from,
    to,
    readsHalf,
    extent,
  };
  const layout = { dtype, n, turn, ...ends };
  const numbers = [count, ...reads, ...writes, columns, scale];
  const output = { shape, dtype }, outputs = to === "parts" ? [output, output] : [output];
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
    const groups = samples * Math.ceil(count / lanes);
    return callDeviceKernel(kernel, [...inputs, ...table()], outputs, numbers, groups);
  }
  const { maxWorkGroupSize: maxItems, maxComputeUnits: units } = device.clDevice!;
  const registers = registerAttributes(device) ? SUBGROUP_REGISTERS : MANY_REGISTERS;
  const limited = { ...layout, maxItems, registers };
  const localBytes = localBytesOf(device);
  const width = widthOf(limited, count, samples, { localBytes, units });
  const rooms = roomsOf({ ...limited, width }, localBytes);
  const plan: LinePlan = { ...limited, width, rooms };
  const name = "fourier_lines", key = JSON.stringify(plan);
  const kernel = { name, key, items: itemsOf(plan), source: () => lineKernel(name, plan) };
  return callDeviceKernel(kernel, inputs, outputs, numbers, samples * groupsOf(plan, count));
}
