/**
 * Training on several devices and machines. Ranks are processes that `mpirun` started; their tensors meet
 * in buckets of host memory, which `backend/communication/` sends. Imports `tensor/nn/`, `optim/`,
 * `ops/`, `autograd/`, `execution/` and `core/`; nothing imports it but `tensor/mod.ts`.
 *
 * @module
 */
export { MPIError, MPIUnavailableError } from "../../backend/internal.ts";
export { DataParallel, type DataParallelOptions } from "./data_parallel.ts";
export { Group, init, type InitOptions } from "./group.ts";
export { ShardedOptimizer } from "./sharded_optimizer.ts";
export { SyncBatchNorm } from "./sync_batch_norm.ts";
export type { ReduceOp } from "./exchange/wire.ts";
