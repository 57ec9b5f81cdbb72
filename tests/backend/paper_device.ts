/** Devices that exist as data alone: programs are planned for them, and their kernels written, but none runs. */
import type { Capabilities } from "../../backend/execution/backend.ts";
import { backendOf } from "../../backend/internal.ts";
import type { CustomCall } from "../../backend/graph/custom.ts";
import type { CustomKernelCall, Launchable } from "../../backend/kernel/kernel.ts";
import type { Target } from "../../backend/kernel/target.ts";
import { planningRules } from "../../backend/opencl/runtime/device_target.ts";
import { attendsOn } from "../../backend/tile/matrix_units.ts";
import { type LaunchStep, launchSteps } from "../../backend/opencl/templates/launch_steps.ts";
import type { Device } from "../../ffi/mod.ts";
import { DeviceHandle, manager, withDevice } from "../../mod.ts";

/** A device on paper. */
export interface PaperDevice {
  readonly target: Partial<Target>;
  readonly capabilities?: Partial<Capabilities>;
  /** Limits that its driver would name. */
  readonly limits?: Readonly<Partial<Pick<Device, "maxWorkGroupSize" | "localMemSize">>>;
}

/** Sizes of a GPU that planning knows beyond what it can do. */
export interface GPUSize {
  /** Bytes of a work-group. */
  readonly localMemory?: number;
  readonly computeUnits?: number;
  /** Bytes of a launch. */
  readonly argumentBytes?: number;
  /** Work-items of a work-group. */
  readonly maxGroup?: number;
}

const halves = new Set(["float16", "bfloat16"] as const);

/** A GPU; without anything of one vendor's unless the target says so. */
export function paperGPU(
  target: Partial<Target>,
  { localMemory = 49152, computeUnits = 132, argumentBytes = 4352, maxGroup = 1024 }: GPUSize = {},
): PaperDevice {
  const all = { isGpu: true, warps: false, matrixUnits: null, warpgroups: false, ...target };
  const rules = planningRules(true, computeUnits, argumentBytes);
  return {
    target: { ...all, localMemory, computeUnits, vectorWidth: 1, tuned: new Map(), ...rules },
    limits: { maxWorkGroupSize: maxGroup, localMemSize: localMemory },
    ...attendsOn(all.matrixUnits) &&
      { capabilities: { attention: halves, interleavesHeads: true } },
  };
}

/** A processor of four cores. */
export function paperCPU(vectorWidth: number): PaperDevice {
  const none = { isGpu: false, warps: false, matrixUnits: null, warpgroups: false };
  return { target: { ...none, vectorWidth, ...planningRules(false, 4, 4352) } };
}

/** Kernels that a program on such a device asks for, beside their launches. */
export interface PaperKernels {
  /** Is given each call of a kernel that comes as a text, not as a plan; by default there must be none. */
  custom?(call: CustomCall): void;
  /** Is given each kernel that a template writes. */
  planned?(kernel: Exclude<Launchable, CustomKernelCall>, target: Target): void;
}

/**
 * Calls a function on such a device.
 *
 * @param found Is given each launch.
 */
export function withPaperDevice(
  { target, capabilities, limits = {} }: PaperDevice,
  found: (step: LaunchStep) => void,
  fn: () => void,
  { custom = refuse, planned = () => {} }: PaperKernels = {},
): void {
  const { platformName, deviceName, clDevice } = manager.default("cl");
  const deviceType = target.isGpu ? "gpu" : "cpu";
  const names = { platformName, deviceName, deviceType, backend: "cl" } as const;
  const handle = new DeviceHandle(names, "cl", clDevice);
  using _ = saying(clDevice!, limits);
  withDevice(handle, () => {
    const backend = backendOf(handle), known = { ...backend.target, ...target };
    Object.defineProperty(backend, "target", { value: known });
    Object.assign(backend, { capabilities: { ...backend.capabilities, ...capabilities } });
    backend.prepare = (kernels) =>
      kernels.map((kernel) => {
        if (kernel.kind === "custom") custom(kernel.call);
        else {
          planned(kernel, known);
          launchSteps(kernel, known).forEach(found);
        }
        return { run: () => {}, name: kernel.label, source: "", bytes: 0 };
      });
    try {
      fn();
    } finally {
      backend.dispose();
      handle.close();
    }
  });
}

function refuse({ kernel: { name } }: CustomCall): never {
  throw new Error(`The kernel ${name} has one text for all devices`);
}

/** The device says of some things what another would, until it is disposed. */
function saying(device: Device, limits: PaperDevice["limits"] & object): Disposable {
  for (const [name, value] of Object.entries(limits)) {
    Object.defineProperty(device, name, { value, configurable: true });
  }
  return {
    [Symbol.dispose]() {
      for (const name of Object.keys(limits)) Reflect.deleteProperty(device, name);
    },
  };
}
