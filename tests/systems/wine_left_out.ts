/** Tests that Windows' Deno in wine cannot pass, with the reasons; a name may be its beginning. */
const ofOpenCL12 = "wine's OpenCL.dll ends at OpenCL 1.2";
const ofExtensions = "wine's OpenCL.dll gives no addresses of extensions' functions";
const ofVariables = "variables of a Windows program reach neither PoCL nor the loader";

/** The table. */
export const leftOut: readonly (readonly [test: string, reason: string])[] = [
  ["Kernel: clone keeps the arguments that are set", ofOpenCL12],
  ["every member of a released Kernel", `${ofOpenCL12}: there is no shared memory to pass`],
  ["CommandBuffer replays what it recorded", ofExtensions],
  ["every member of a released CommandBuffer", ofExtensions],
  ["a recorded fill is checked like an enqueued one", ofExtensions],
  ["A value moves between two devices once", ofVariables],
  ["two devices of a platform are two handles", ofVariables],
  ["where there is no device, auto is the built-in backend", ofVariables],
  ["Program: programs are compiled with headers and linked", "wine has no clCompileProgram"],
];
