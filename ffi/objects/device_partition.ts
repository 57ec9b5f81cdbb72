/**
 * The ways to divide a device.
 *
 * @module
 */
import { AffinityDomain, DevicePartition } from "../library/constants.ts";

/** Ways in which {@linkcode Device.partition} divides a device. */
export type DevicePartitioning =
  | { /** Compute units of each part. */ readonly equally: number }
  | { /** Compute units, part by part. */ readonly counts: readonly number[] }
  | { /** The resource that the units of a part share. */ readonly affinity: AffinityName };

/** Caches and nodes that compute units may share. */
export type AffinityName =
  | "numa"
  | "l4-cache"
  | "l3-cache"
  | "l2-cache"
  | "l1-cache"
  | "next-partitionable";

const affinities: { readonly [name in AffinityName]: bigint } = {
  "numa": AffinityDomain.NUMA,
  "l4-cache": AffinityDomain.L4_CACHE,
  "l3-cache": AffinityDomain.L3_CACHE,
  "l2-cache": AffinityDomain.L2_CACHE,
  "l1-cache": AffinityDomain.L1_CACHE,
  "next-partitionable": AffinityDomain.NEXT_PARTITIONABLE,
};

/** The property list of clCreateSubDevices. */
export function partitionProperties(how: DevicePartitioning): BigInt64Array {
  if ("equally" in how) {
    return new BigInt64Array([DevicePartition.EQUALLY, BigInt(how.equally), 0n]);
  }
  if ("affinity" in how) {
    return new BigInt64Array([
      DevicePartition.BY_AFFINITY_DOMAIN,
      affinities[how.affinity],
      0n,
    ]);
  }
  const { BY_COUNTS, BY_COUNTS_LIST_END } = DevicePartition;
  return new BigInt64Array([BY_COUNTS, ...how.counts.map(BigInt), BY_COUNTS_LIST_END, 0n]);
}
