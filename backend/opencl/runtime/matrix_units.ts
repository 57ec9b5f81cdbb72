/** Which devices multiply matrices in hardware, as far as OpenCL C reaches it. */
import type { Device } from "../../../ffi/mod.ts";
import { readers } from "../../../ffi/library/info.ts";
import { cl } from "../../../ffi/library/library.ts";

// Of cl_nv_device_attribute_query.
const COMPUTE_CAPABILITY_MAJOR_NV = 0x4000;
const EXTENSION = "cl_nv_device_attribute_query";

/** The compute capability from which on `mma.sync` and `cp.async` are there: Ampere's. */
const FIRST = 8;

/** True for NVIDIA devices whose tensor cores inline PTX reaches: `mma.sync`, `cp.async`, `ldmatrix`. */
export function hasMatrixUnits(device: Device): boolean {
  if (!device.extensions.includes(EXTENSION)) return false;
  const { unsafeHandle } = device;
  const major = readers.u32(
    (parameter, size, value, out) => cl.clGetDeviceInfo(unsafeHandle, parameter, size, value, out),
    COMPUTE_CAPABILITY_MAJOR_NV,
    "clGetDeviceInfo",
  );
  return major >= FIRST;
}
