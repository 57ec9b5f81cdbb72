/**
 * Processes that learn together: collective operations on bytes of the host, and how to wait for
 * them. It imports `ffi/mpi/` and `backend/lifecycle/`, and knows nothing of devices; `tensor/distributed/`
 * puts tensors on top.
 *
 * @module
 */
export { alone } from "./alone.ts";
export { adviseOnBinding } from "./binding.ts";
export type { Communicator, Operation, WireOp, WireType } from "./communicator.ts";
export { worldCommunicator } from "./mpi.ts";
export { MPIError, MPIUnavailableError } from "../../ffi/mpi/mod.ts";
export { mapPages, type SharedMemory } from "../../ffi/host/shared_memory.ts";
export { type SharedParts, shareParts } from "./shared_parts.ts";
export {
  agree,
  completed,
  completedSync,
  leaveBehind,
  messagePauseMs,
  type Progress,
  setCommunicationTimeout,
} from "./waiting.ts";
export { keepLinesWhole } from "./whole_lines.ts";
