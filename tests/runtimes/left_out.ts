/** Tests that a runtime cannot pass for reasons of its own, with these reasons. */
import type { LeftOutTests } from "../suite/left_out/left_out.ts";

const namesOnly =
  "node:ffi calls functions by their names only, those of extensions have addresses";
const workersOfDeno = "its worker is a program for Deno";
const pngOnly = "there is no createImageBitmap for other formats than PNG, as the error says";
const droppedFrames = "JavaScriptCore drops the frames of functions that return another's result";
const roundsTwice = "JavaScriptCore's relaxed multiply-add rounds twice, V8's and OpenCL's once";
const defaultActions = "Node gives every signal its default action when it starts";

const onBoth: LeftOutTests = {
  "backend/lifecycle/lifecycle_test.ts": {
    "of two watchdogs": "threads hear no signals, as the error says",
    "who prints the error": "printing an error reads its class, as Deno's does not",
  },
  "backend/sharing/workers_test.ts": { "workers that train": workersOfDeno },
  "ffi/library/library_test.ts": {
    "on a terminal the permission": "permissions, and questions for them, are Deno's",
  },
  "signals/matrix_test.ts": { "awaiting a worker": workersOfDeno },
  "tensor/io/pictures/picture_test.ts": {
    ".jpg": pngOnly,
    ".gif": pngOnly,
    ".bmp": pngOnly,
    ".webp": pngOnly,
    "loadImage reads what saveImage wrote": pngOnly,
    "decodeImage answers any damage": pngOnly,
  },
};

const onNode: LeftOutTests = {
  "ffi/memory/bounds_test.ts": { "a recorded fill": namesOnly },
  "ffi/objects/extension_test.ts": { "bindExtension finds": namesOnly, "CommandBuffer": namesOnly },
  "ffi/objects/released_test.ts": { "every member of a released CommandBuffer": namesOnly },
  "signals/matrix_test.ts": { "SIGHUP under nohup": defaultActions },
  "signals/terminal_test.ts": { "a program under nohup": defaultActions },
};

const onBun: LeftOutTests = {
  "backend/opencl/codegen/vector_math_test.ts": {
    "has the bits of the built-in backend": roundsTwice,
  },
  "faults/training_test.ts": {
    "any function that a training step calls":
      "JavaScriptCore's collector leaves a few dead tensors, behind other calls in each run",
  },
  "ffi/events/keep_alive_test.ts": {
    "an array that a ":
      "JavaScriptCore collects the object of a buffer whose memory an array still has",
  },
  "laws/same_bits_in_tiers_test.ts": { "the same bits in both tiers": roundsTwice },
  "memory/report/recorder_test.ts": { "Recorder names": droppedFrames },
  "tensor/autograd/anomaly_test.ts": {
    "the error names the operation and": droppedFrames,
    "a NaN of the forward pass": droppedFrames,
    "a layer's operation": droppedFrames,
  },
};

/** The tables of each runtime. */
export const leftOut: Readonly<Record<"node" | "bun", readonly LeftOutTests[]>> = {
  node: [onBoth, onNode],
  bun: [onBoth, onBun],
};
