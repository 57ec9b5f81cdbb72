/**
 * The cost of a data-parallel step on n ranks, by simulation: gradients become ready in buckets during
 * backward, and each bucket passes four stations one after the other, which work on one bucket at a time:
 * copy to the host, reduction on the host's ranks, reduction over the network, copy to the device.
 */

/** The model that is trained. Times are milliseconds, sizes bytes. */
export interface Workload {
  readonly name: string;
  readonly forwardMs: number;
  readonly backwardMs: number;
  readonly stepMs: number;
  readonly gradientBytes: number;
}

/** The network between the ranks. Bandwidths are GB/s (10^9 bytes), latencies microseconds. */
export interface Cluster {
  readonly name: string;
  readonly ranksPerHost: number;
  /** Between a device and its host, each way. */
  readonly copyGBs: number;
  /** Memory bandwidth for adding on one host, shared by its ranks. */
  readonly hostGBs: number;
  /** Of a host's network, shared by its ranks. */
  readonly networkGBs: number;
  readonly latencyUs: number;
}

/** The cost of a step. */
export interface StepCost {
  readonly totalMs: number;
  /** The time that the step takes longer than on one rank. */
  readonly exposedMs: number;
  /** The share of perfect scaling. */
  readonly efficiency: number;
}

/** Milliseconds to move bytes. */
function moveMs(bytes: number, gbs: number): number {
  return bytes / (gbs * 1e6);
}

/**
 * An all-reduce among n: 2 (n - 1) / n of the bytes leave and enter each, and the better of a ring
 * (2 (n - 1) messages) and recursive halving and doubling (2 log2 n messages) is taken, as MPI does
 * (R. Thakur et al., Optimization of Collective Communication Operations in MPICH, 2005).
 */
export function allReduceMs(bytes: number, n: number, gbs: number, latencyUs: number): number {
  if (n <= 1) return 0;
  const messages = Math.min(2 * (n - 1), 2 * Math.ceil(Math.log2(n)));
  return messages * latencyUs / 1000 + 2 * (n - 1) / n * moveMs(bytes, gbs);
}

/** Simulates one step. */
export function stepCost(
  work: Workload,
  cluster: Cluster,
  ranks: number,
  bucketBytes = 25 * 2 ** 20,
): StepCost {
  const aloneMs = work.forwardMs + work.backwardMs + work.stepMs;
  if (ranks === 1) return { totalMs: aloneMs, exposedMs: 0, efficiency: 1 };
  const onHost = Math.min(ranks, cluster.ranksPerHost), hosts = Math.ceil(ranks / onHost);
  const stations: ((bytes: number) => number)[] = [
    (bytes) => moveMs(bytes, cluster.copyGBs),
    // Each rank reads and writes through the memory that all of the host share.
    (bytes) => allReduceMs(bytes, onHost, cluster.hostGBs / onHost, 1),
    (bytes) => allReduceMs(bytes, hosts, cluster.networkGBs, cluster.latencyUs),
    (bytes) => moveMs(bytes, cluster.copyGBs),
  ];
  const count = Math.max(1, Math.ceil(work.gradientBytes / bucketBytes));
  const free = stations.map(() => 0);
  let end = work.forwardMs + work.backwardMs;
  for (let bucket = 0; bucket < count; bucket++) {
    const bytes = Math.min(bucketBytes, work.gradientBytes - bucket * bucketBytes);
    const done = Math.min(1, (bucket + 1) * bucketBytes / work.gradientBytes);
    let at = work.forwardMs + work.backwardMs * done;
    stations.forEach((timeOf, k) => at = free[k] = Math.max(at, free[k]!) + timeOf(bytes));
    end = Math.max(end, at);
  }
  const totalMs = end + work.stepMs;
  return { totalMs, exposedMs: totalMs - aloneMs, efficiency: aloneMs / totalMs };
}
