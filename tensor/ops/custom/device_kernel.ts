/** Kernels of many work-groups that the library has for GPUs alone, written for the shapes of a call. */
import { backendOf, type DeviceHandle, matrixAttributes } from "../../../backend/internal.ts";
import { kernelOperation, type RawOutput } from "./raw_kernel.ts";
import type { Tensor } from "../../core/mod.ts";

/** A kernel with what it was written for. */
export interface DeviceKernel {
  readonly name: string;
  /** Tells texts of one name from each other. */
  readonly key: string;
  /** Work-items of a group. */
  readonly items: number;
  /** OpenCL C: inputs, outputs and numbers as of {@linkcode rawKernel}. */
  readonly source: () => string;
}

/** One call's outputs and groups, which its operation asks for. */
interface Call {
  outputs: readonly RawOutput[];
  groups: number;
}

interface Known {
  readonly operation: (...args: (Tensor | number)[]) => Tensor | Tensor[];
  readonly call: Call;
}

/** The last texts, the latest at the end. */
const known = new Map<string, Known>();
/** Texts that are kept; programs of others are built again, or read from the disk. */
const MAX_KNOWN = 256;

/** True where work-items share the work of a group; a processor runs a group in one thread. */
export function runsInGroups({ backend, deviceType }: DeviceHandle): boolean {
  return backend === "cl" && deviceType !== "cpu";
}

/** Most bytes of local memory that a group may have: more would leave its processor to few groups. */
const MAX_LOCAL_BYTES = 49152;

/** Bytes of local memory that a group may have. */
export function localBytesOf(device: DeviceHandle): number {
  return Math.min(device.clDevice?.localMemSize ?? 0, MAX_LOCAL_BYTES);
}

/**
 * Attributes of kernels that keep their numbers in registers: Intel's GPUs share these among a sub-group's work-items,
 * 128 each in the smallest. Panels of LU and QR on a GPU Max keep 26 and 16 in memory in larger ones (ocloc 26.27).
 */
export function registerAttributes(device: DeviceHandle): string {
  const { matrixUnits } = backendOf(device).target;
  return matrixUnits && matrixAttributes[matrixUnits] || "";
}

/**
 * Calls a kernel.
 *
 * @param inputs Its inputs. All have the same leading axes: more of them are more groups, in order.
 * @param outputs Its results, with these axes, too.
 * @param numbers Its numbers.
 * @param groups Work-groups, of all elements of the leading axes.
 */
export function callDeviceKernel(
  kernel: DeviceKernel,
  inputs: readonly Tensor[],
  outputs: readonly RawOutput[],
  numbers: readonly number[],
  groups: number,
): Tensor[] {
  const attributes = registerAttributes(inputs[0]!.device);
  const key = `${kernel.name} ${kernel.key} ${attributes}`;
  const found = known.get(key) ?? made(kernel, inputs.length, attributes);
  known.delete(key);
  known.set(key, found);
  if (known.size > MAX_KNOWN) known.delete(known.keys().next().value!);
  Object.assign(found.call, { outputs, groups });
  return found.operation(...inputs, ...numbers) as Tensor[];
}

function made({ name, items, source }: DeviceKernel, inputs: number, attributes: string): Known {
  const call: Call = { outputs: [], groups: 0 };
  const options = {
    source: attributes ? source().replace(/^kernel /m, `$&${attributes} `) : source(),
    output: () => [...call.outputs],
    global: () => [call.groups * items],
    local: [items],
  };
  return { operation: kernelOperation(name, options, new Array(inputs).fill(true)), call };
}
