/**
 * libmpi for Deno: what data-parallel training needs of it. It knows `ffi/host/` alone; only
 * `backend/communication/` imports it.
 *
 * A program comes here by `distributed.init()`. The launcher's variables say which library to open
 * (launcher.ts), a symbol of the library which implementation it is (library.ts), and that which
 * constants and which type of handle to use (implementation.ts).
 *
 * @module
 */
export { Communicator, Request } from "./communicator.ts";
export { MPIError, MPIUnavailableError } from "./errors.ts";
export type { ElementType, ReduceOp } from "./implementation.ts";
export { check, libraryVersion, type MPILibrary, openMPILibrary } from "./library.ts";
export type { Launcher } from "./launcher.ts";
