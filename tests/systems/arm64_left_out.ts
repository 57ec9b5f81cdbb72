/** Tests that Deno for arm64 under qemu cannot pass, with the reasons. */
import type { LeftOutTests } from "../suite/left_out/left_out.ts";

const ofEmulator =
  "/proc/self/status has the emulator's signals, which catches those that end programs";

/** The table. */
export const leftOut: LeftOutTests = {
  "ffi/library/signals_test.ts": {
    "a signal ignored at the start": ofEmulator,
    "signals that end a program have no handler of a driver": ofEmulator,
  },
};
