/** Devices that multiply matrices in hardware, or have warps, as far as OpenCL C reaches it. */
import type { Device } from "../../../ffi/mod.ts";
import { type InfoCall, readers } from "../../../ffi/library/info.ts";
import { cl } from "../../../ffi/library/library.ts";
import { readSwitch } from "../../../ffi/host/switches.ts";
import type { MatrixUnits } from "../../kernel/target.ts";

// Of cl_nv_device_attribute_query, cl_amd_device_attribute_query, cl_intel_required_subgroup_size.
const COMPUTE_CAPABILITY_MAJOR_NV = 0x4000;
const WAVEFRONT_WIDTH_AMD = 0x4043;
const SUB_GROUP_SIZES_INTEL = 0x4108;

/** The compute capability from which on work-items of a warp go on by themselves: Volta's. */
const VOLTA = 7;
/** The compute capability from which on `mma.sync` and `cp.async` are there: Ampere's. */
const AMPERE = 8;
/** The one that has `wgmma`: Hopper's. Later ones do not have it. */
const HOPPER = 9;

/** A driver's words on a device's units. */
export interface UnitFacts {
  readonly name: string;
  readonly extensions: readonly string[];
  /** Major number of NVIDIA's compute capability; 0 for others. */
  readonly computeCapability: number;
  /** Work-items of AMD's wavefronts; 0 for others. */
  readonly wavefront: number;
  /** Work-items of Intel's smallest sub-group; 0 for others. */
  readonly subgroup: number;
}

/** AMD's drivers call a device by its instruction set: "gfx1100", "gfx90a:sramecc+:xnack-". */
const isAmd = (name: RegExp, width: number) => ({ name: device, wavefront }: UnitFacts): boolean =>
  wavefront === width && name.test(device);
/** Intel's take sub-groups of the smallest size. */
const isIntel = (size: number) => ({ extensions, subgroup }: UnitFacts): boolean =>
  subgroup === size && extensions.includes("cl_intel_subgroup_matrix_multiply_accumulate");

const rules: Readonly<Record<MatrixUnits, (facts: UnitFacts) => boolean>> = {
  mma: ({ computeCapability }) => computeCapability >= AMPERE,
  wmma: isAmd(/^gfx11\d\d\b/, 32),
  wmma12: isAmd(/^gfx120\d\b/, 32),
  mfma: isAmd(/^gfx9(0a|4\d|50)\b/, 64),
  dpas8: isIntel(8),
  dpas16: isIntel(16),
};

/** The units of a device of which a driver says so much. */
export function unitsByFacts(facts: UnitFacts): MatrixUnits | null {
  return (Object.keys(rules) as MatrixUnits[]).find((units) => rules[units](facts)) ?? null;
}

/** The matrix units that products use on a device; none where NETCL_MATRIX_UNITS is 0. */
export function matrixUnitsOf(device: Device): MatrixUnits | null {
  if (readSwitch("NETCL_MATRIX_UNITS") === false) return null;
  const { name, extensions } = device, ask = infoOf(device);
  const has = (extension: string): boolean => extensions.includes(extension);
  return unitsByFacts({
    name,
    extensions,
    computeCapability: computeCapability(device),
    wavefront: has("cl_amd_device_attribute_query")
      ? readers.u32(ask, WAVEFRONT_WIDTH_AMD, "clGetDeviceInfo")
      : 0,
    subgroup: has("cl_intel_required_subgroup_size")
      ? Math.min(...readers.sizes(ask, SUB_GROUP_SIZES_INTEL, "clGetDeviceInfo"))
      : 0,
  });
}

/** True for NVIDIA devices that have what inline PTX of compute capability 8.0 does. */
export const hasMma = (device: Device): boolean => computeCapability(device) >= AMPERE;

/** True for NVIDIA devices whose warps inline PTX reaches: `shfl.sync`, `vote.sync`, `bar.warp.sync`. */
export const hasWarps = (device: Device): boolean => computeCapability(device) >= VOLTA;

/** True for NVIDIA devices that have `wgmma`, and tensor maps in Hopper's format. */
export const hasWarpgroups = (device: Device): boolean => computeCapability(device) === HOPPER;

/** The major number of an NVIDIA device's compute capability; 0 for others. */
function computeCapability(device: Device): number {
  if (!device.extensions.includes("cl_nv_device_attribute_query")) return 0;
  return readers.u32(infoOf(device), COMPUTE_CAPABILITY_MAJOR_NV, "clGetDeviceInfo");
}

const infoOf = ({ unsafeHandle }: Device): InfoCall => (parameter, size, value, out) =>
  cl.clGetDeviceInfo(unsafeHandle, parameter, size, value, out);
