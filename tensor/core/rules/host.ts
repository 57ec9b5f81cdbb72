/** The runtime of JavaScript, for files and streams. */
export { host } from "../../../ffi/runtime/host.ts";
export type { HostFile, HostWorker } from "../../../ffi/runtime/types.ts";
