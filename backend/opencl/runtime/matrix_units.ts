/** Devices that multiply matrices in hardware, or have warps, as far as OpenCL C reaches it. */
import type { Device } from "../../../ffi/mod.ts";
import { readers } from "../../../ffi/library/info.ts";
import { cl } from "../../../ffi/library/library.ts";

// Of cl_nv_device_attribute_query.
const COMPUTE_CAPABILITY_MAJOR_NV = 0x4000;
const EXTENSION = "cl_nv_device_attribute_query";

/** The compute capability from which on work-items of a warp go on by themselves: Volta's. */
const VOLTA = 7;
/** The compute capability from which on `mma.sync` and `cp.async` are there: Ampere's. */
const AMPERE = 8;
/** The one that has `wgmma`: Hopper's. Later ones do not have it. */
const HOPPER = 9;

/** True for NVIDIA devices whose tensor cores inline PTX reaches: `mma.sync`, `cp.async`, `ldmatrix`. */
export function hasMatrixUnits(device: Device): boolean {
  return computeCapability(device) >= AMPERE;
}

/** True for NVIDIA devices whose warps inline PTX reaches: `shfl.sync`, `vote.sync`, `bar.warp.sync`. */
export function hasWarps(device: Device): boolean {
  return computeCapability(device) >= VOLTA;
}

/** True for NVIDIA devices that have `wgmma`, and tensor maps in Hopper's format. */
export function hasWarpgroups(device: Device): boolean {
  return computeCapability(device) === HOPPER;
}

/** The major number of an NVIDIA device's compute capability; 0 for others. */
function computeCapability(device: Device): number {
  if (!device.extensions.includes(EXTENSION)) return 0;
  const { unsafeHandle } = device;
  return readers.u32(
    (parameter, size, value, out) => cl.clGetDeviceInfo(unsafeHandle, parameter, size, value, out),
    COMPUTE_CAPABILITY_MAJOR_NV,
    "clGetDeviceInfo",
  );
}
