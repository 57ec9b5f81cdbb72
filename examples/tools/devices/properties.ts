/**
 * Names of the numbers of a device's properties: constants of cl.h, by the names there.
 */
import {
  AffinityDomain,
  AtomicCapabilities,
  DeviceEnqueueCapabilities,
  DevicePartition,
  type DevicePropertyName,
  DeviceType,
  ExecCapabilities,
  FloatConfig,
  LocalMemType,
  MemCacheType,
  QueueProperties,
  SvmCapabilities,
} from "@netcl/netcl/ffi";

type Constants = { readonly [name: string]: number | bigint };

/** A group of constants, and the prefix of their names in cl.h. */
export interface Meaning {
  readonly constants: Constants;
  readonly prefix: string;
}

const meaning = (constants: Constants, prefix: string): Meaning => ({ constants, prefix });
const floats = meaning(FloatConfig, "CL_FP_");
const queues = meaning(QueueProperties, "CL_QUEUE_");
const atomics = meaning(AtomicCapabilities, "CL_DEVICE_ATOMIC_");
const partition = meaning(DevicePartition, "CL_DEVICE_PARTITION_");

/** Properties that are bit fields. */
export const bitFields: { readonly [name in DevicePropertyName]?: Meaning } = {
  TYPE: meaning(DeviceType, "CL_DEVICE_TYPE_"),
  HALF_FP_CONFIG: floats,
  SINGLE_FP_CONFIG: floats,
  DOUBLE_FP_CONFIG: floats,
  EXECUTION_CAPABILITIES: meaning(ExecCapabilities, "CL_EXEC_"),
  QUEUE_ON_HOST_PROPERTIES: queues,
  QUEUE_ON_DEVICE_PROPERTIES: queues,
  PARTITION_AFFINITY_DOMAIN: meaning(AffinityDomain, "CL_DEVICE_AFFINITY_DOMAIN_"),
  SVM_CAPABILITIES: meaning(SvmCapabilities, "CL_DEVICE_SVM_"),
  ATOMIC_MEMORY_CAPABILITIES: atomics,
  ATOMIC_FENCE_CAPABILITIES: atomics,
  DEVICE_ENQUEUE_CAPABILITIES: meaning(DeviceEnqueueCapabilities, "CL_DEVICE_QUEUE_"),
};

/** Properties that are one constant, or a list of constants. */
export const enumerations: { readonly [name in DevicePropertyName]?: Meaning } = {
  GLOBAL_MEM_CACHE_TYPE: meaning(MemCacheType, "CL_"),
  LOCAL_MEM_TYPE: meaning(LocalMemType, "CL_"),
  PARTITION_PROPERTIES: partition,
  PARTITION_TYPE: partition,
};

/** Handles, and old names of what has a new one: they tell a reader nothing. */
export const hidden: ReadonlySet<DevicePropertyName> = new Set<DevicePropertyName>([
  "PLATFORM",
  "PARENT_DEVICE",
  "REFERENCE_COUNT",
  "QUEUE_PROPERTIES",
]);

/** Properties that are sizes in bytes. */
export const byteSizes: ReadonlySet<DevicePropertyName> = new Set<DevicePropertyName>([
  "GLOBAL_MEM_CACHELINE_SIZE",
  "GLOBAL_MEM_CACHE_SIZE",
  "GLOBAL_MEM_SIZE",
  "LOCAL_MEM_SIZE",
  "MAX_CONSTANT_BUFFER_SIZE",
  "MAX_GLOBAL_VARIABLE_SIZE",
  "MAX_MEM_ALLOC_SIZE",
  "PRINTF_BUFFER_SIZE",
]);

/** The names of the bits that are set, less those that stand for several. */
export function namesOfBits(bits: bigint, { constants, prefix }: Meaning): string[] {
  return Object.entries(constants)
    .filter(([, bit]) => isOneBit(BigInt(bit)) && (bits & BigInt(bit)) !== 0n)
    .map(([name]) => prefix + name);
}

/** The name of a constant, or its number where it has none. */
export function nameOf(value: number | bigint, { constants, prefix }: Meaning): string {
  const found = Object.entries(constants).find(([, each]) => BigInt(each) === BigInt(value));
  return found ? prefix + found[0] : `0x${value.toString(16)}`;
}

/** CL_DEVICE_TYPE_ALL has all of them. */
function isOneBit(bits: bigint): boolean {
  return bits !== 0n && (bits & (bits - 1n)) === 0n;
}
