/** Target of kernels for a device, and its capabilities: data, asked once. */
import type { Device } from "../../../ffi/mod.ts";
import type { DeviceHandle, DeviceType } from "../../devices/device_handle.ts";
import type { Capabilities } from "../../execution/backend.ts";
import type { DType } from "../../graph/dtype.ts";
import { attendsOn } from "../../tile/matrix_units.ts";
import { NARROW_END } from "../../kernel/index_range.ts";
import {
  defaultFusion,
  type FusionRules,
  type RowSplits,
  type SharingRules,
  type Target,
} from "../../kernel/target.ts";
import { driverOf } from "./driver.ts";
import { hasWarpgroups, hasWarps, matrixUnitsOf } from "./matrix_units.ts";
import { readTunedTiles } from "./tuned_tiles.ts";

/** The cost below which a GPU computes again, in additions: it adds 20 times while it moves a byte (H100: 60 TFLOP/s, 3 TB/s). */
const GPU_CHEAP = 64;
/** The same of a CPU with wide vectors: a gelu's gradient from what its product gave (2 cores, AVX-512: 0.94 of a GPT's step). */
const CPU_CHEAP = 100;
/** One tanh or sigmoid, but no erf: gelu's gradient behind a product takes 430 us, in a kernel of its own 125 (H100). */
const GPU_EPILOGUE = 10;
/** More kernels make the choice of arguments longer than the work. */
const MAX_SHARED = 16;
/** A GPU that is used to less than a quarter takes longer than a second launch, and reading values again. */
const GPU_MIN_PARTS = 4;
/** Fewer elements than this are reduced in one launch. */
const MIN_SPLIT = 65536;

/**
 * The target of a device.
 *
 * @param canLift Whether its driver builds what only compute capability 9.0 has; asked where it matters.
 */
export function targetOf(device: Device, type: DeviceType, canLift: () => boolean): Target {
  const isGpu = type === "gpu" || type === "accel" || driverOf(device).itemsAreLanes;
  const computeUnits = device.maxComputeUnits, matrixUnits = matrixUnitsOf(device);
  return {
    isGpu,
    localMemory: device.localMemSize,
    computeUnits,
    matrixUnits,
    warps: hasWarps(device),
    warpgroups: matrixUnits === "mma" && hasWarpgroups(device) && canLift(),
    vectorWidth: device.query("NATIVE_VECTOR_WIDTH_FLOAT"),
    narrowEnd: NARROW_END,
    tuned: readTunedTiles(device),
    ...planningRules(isGpu, computeUnits, device.query("MAX_PARAMETER_SIZE")),
  };
}

/** Planning rules for a GPU, or a CPU device, of so many compute units. */
export function planningRules(
  isGpu: boolean,
  computeUnits: number,
  argumentBytes: number,
): Pick<Target, "fusion" | "rowSplits" | "sharing"> {
  return {
    fusion: { ...isGpu ? gpuFusion(computeUnits) : cpuFusion, attendsViews: true },
    rowSplits: isGpu ? gpuSplits(computeUnits) : cpuSplits(computeUnits),
    sharing: { maxKernels: MAX_SHARED, argumentBytes, ...isGpu ? gpuSharing : cpuSharing },
  };
}

type Sharing = Omit<SharingRules, "maxKernels" | "argumentBytes">;

/**
 * Rules of a CPU, whose caches have what was made a moment ago, and for which parts of split sums are long work.
 * With 1 MiB waiting the gradients of a small GPT's biases took 9 launches on PoCL (768 rows of 512: 1.5 MiB), with 8 two.
 */
const cpuSharing: Sharing = {
  maxBytes: Infinity,
  maxProducts: Infinity,
  maxLeafProducts: Infinity,
  sharesParts: false,
  held: { waiting: 1 << 23, early: 1 << 23, earlyOfStored: 1 << 26 },
};

/** A launch takes the host as long as 32 MB take the device (H200: 10 us); what waits has the room below the peak. */
const gpuSharing: Sharing = {
  maxBytes: 1 << 26,
  maxProducts: 1 << 28,
  maxLeafProducts: 2 ** 34,
  sharesParts: true,
  held: { waiting: Infinity, early: Infinity, earlyOfStored: Infinity },
};

const cpuFusion: FusionRules = {
  ...defaultFusion,
  derivedCheap: CPU_CHEAP,
  joinsReductions: true,
  packsProducts: true,
};

function gpuFusion(computeUnits: number): FusionRules {
  return {
    ...defaultFusion,
    minRows: 2 * computeUnits,
    derivedCheap: GPU_CHEAP,
    maxEpilogue: GPU_EPILOGUE,
    joinsReductions: true,
    storesPieces: true,
    storesWindowed: false,
    fillsScatters: true,
  };
}

function gpuSplits(computeUnits: number): RowSplits {
  const items = computeUnits * 512, groups = computeUnits * 8;
  return {
    minElements: MIN_SPLIT,
    minParts: GPU_MIN_PARTS,
    // Items of a group share columns: fewer parts need less time to be joined.
    byItem: { enoughRows: items, parts: items / 2, shortest: 32, isSideBySide: true },
    byGroup: { enoughRows: groups, parts: groups, shortest: 4096, isSideBySide: false },
  };
}

function cpuSplits(computeUnits: number): RowSplits {
  return {
    minElements: MIN_SPLIT,
    minParts: Infinity,
    byItem: {
      enoughRows: computeUnits * 4,
      // A thread that wakes late finds work left where the parts are small (PoCL 3.1 deals out halves).
      parts: computeUnits * 32,
      shortest: 4096,
      isSideBySide: false,
    },
    byGroup: null,
  };
}

/** Capabilities of a device. */
export function capabilitiesOf(device: Device, handle: DeviceHandle): Capabilities {
  const supported: DType[] = [
    "float32",
    "float16",
    "bfloat16",
    "int32",
    "int64",
    "int16",
    "int8",
    "uint32",
    "uint8",
    "bool",
  ];
  if (device.extensions.includes("cl_khr_fp64")) supported.push("float64");
  const attends = attendsOn(matrixUnitsOf(device));
  return {
    dtypes: new Set(supported),
    fp16: handle.fp16,
    unifiedMemory: device.hostUnifiedMemory,
    attention: new Set<DType>(
      attends ? ["float16", "bfloat16"] : ["float32", "float16", "bfloat16"],
    ),
    minAttentionScores: 0,
    keptAttentionBytes: 2 ** 22,
    interleavesHeads: attends,
    joinsHeads: handle.deviceType !== "gpu",
    joinsMoments: handle.deviceType === "gpu",
    // With more a core would read them from farther away than its own cache, for each few rows.
    maxRecurrentBytes: handle.deviceType === "gpu" ? 0 : 2 ** 21,
    scattersExtremes: handle.deviceType !== "gpu",
    // A group walks a row: few long ones are sorted by the whole GPU before it is through.
    selection: handle.deviceType === "gpu"
      ? { maxPlaces: 256, minRows: 64, maxLength: 8192 }
      : { maxPlaces: 128, minRows: 0, maxLength: 0 },
    gathersGradients: handle.deviceType !== "gpu",
    widensProducts: handle.deviceType !== "gpu",
  };
}
