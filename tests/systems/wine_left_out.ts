/** Tests that Windows' Deno in wine cannot pass, with the reasons. */
import type { LeftOutTests } from "../suite/left_out/left_out.ts";

const ofOpenCL12 = "wine's OpenCL.dll ends at OpenCL 1.2";
const ofExtensions = "wine's OpenCL.dll gives no addresses of extensions' functions";
const ofVariables = "variables of a Windows program reach neither PoCL nor the loader";

/** The table. */
export const leftOut: LeftOutTests = {
  "backend/devices/devices_test.ts": {
    "two devices of a platform are two handles": ofVariables,
    "where there is no device, auto is the built-in backend": ofVariables,
  },
  "ffi/kernels/kernel_test.ts": { "Kernel: clone keeps the arguments that are set": ofOpenCL12 },
  "ffi/kernels/program_test.ts": {
    "Program: programs are compiled with headers and linked": "wine has no clCompileProgram",
  },
  "ffi/memory/bounds_test.ts": {
    "a recorded fill is checked like an enqueued one": ofExtensions,
  },
  "ffi/objects/extension_test.ts": { "CommandBuffer replays what it recorded": ofExtensions },
  "ffi/objects/released_test.ts": {
    "every member of a released CommandBuffer": ofExtensions,
    "every member of a released Kernel": `${ofOpenCL12}: there is no shared memory to pass`,
  },
  "memory/devices/two_devices_test.ts": { "A value moves between two devices once": ofVariables },
};
