/** Tests that a runtime cannot pass for reasons of its own, with these reasons. */

interface LeftOutTest {
  readonly runtime: "node" | "bun";
  /** Part of the file's name, without its ending. */
  readonly file: string;
  /** Part of the test's name; every test of the file without it. */
  readonly name?: string;
  readonly reason: string;
}

const namesOnly =
  "node:ffi calls functions by their names only, those of extensions have addresses";

const placesOfSources = "it names a line of a .ts file";

/** Reasons that hold on both. */
const onBoth: readonly Omit<LeftOutTest, "runtime">[] = [
  { file: "memory/wrappers/wrappers_test", name: "GuardPool", reason: placesOfSources },
  { file: "memory/devices/create_pool_test", name: "createPool watches", reason: placesOfSources },
  { file: "memory/report/report_test", name: "The report is one page", reason: placesOfSources },
  { file: "memory/report/recorder_test", name: "Recorder names", reason: placesOfSources },
  {
    file: "ffi/library/library_test",
    name: "on a terminal the permission",
    reason: "permissions, and questions for them, are Deno's",
  },
  {
    file: "signals/matrix_test",
    name: "awaiting a worker",
    reason: "its worker is a program for Deno",
  },
  {
    file: "tensor/io/pictures/picture_test",
    reason: "there is no createImageBitmap, as the error says",
  },
  {
    file: "backend/lifecycle/lifecycle_test",
    name: "of two watchdogs",
    reason: "threads hear no signals, as the error says",
  },
  {
    file: "backend/lifecycle/lifecycle_test",
    name: "who prints the error",
    reason: "printing an error reads its class, as Deno's does not",
  },
];

/** The table. */
export const leftOut: readonly LeftOutTest[] = [
  ...onBoth.flatMap((
    test,
  ) => [{ ...test, runtime: "node" as const }, { ...test, runtime: "bun" as const }]),
  ...["the error names the operation and", "a NaN of the forward pass", "a layer's operation"].map((
    name,
  ) => ({
    runtime: "bun" as const,
    file: "tensor/autograd/anomaly_test",
    name,
    reason: "JavaScriptCore drops the frames of functions that return another's result",
  })),
  {
    runtime: "bun",
    file: "ffi/events/keep_alive_test",
    name: "an array that a ",
    reason: "JavaScriptCore collects the object of a buffer whose memory an array still has",
  },
  { runtime: "node", file: "ffi/memory/bounds_test", name: "a recorded fill", reason: namesOnly },
  ...[
    ["signals/matrix_test", "SIGHUP under nohup"],
    ["signals/terminal_test", "a program under nohup"],
  ].map(([file, name]) => ({
    runtime: "node" as const,
    file: file!,
    name: name!,
    reason: "Node gives every signal its default action when it starts",
  })),
  ...[
    ["bindExtension finds", "extension_test"],
    ["CommandBuffer", "extension_test"],
    ["every member of a released CommandBuffer", "released_test"],
  ].map(([name, file]) => ({
    runtime: "node" as const,
    file: `ffi/objects/${file}`,
    name: name!,
    reason: namesOnly,
  })),
];
