/** Ctrl+C, without a process of its own for it. */
import {
  beginInterruption,
  completeInterruption,
  resetInterruption,
} from "../../../backend/lifecycle/interruption.ts";

/** Runs while the program is interrupted. */
export async function interrupted(fn: () => Promise<void>): Promise<void> {
  try {
    beginInterruption();
    completeInterruption();
    await fn();
  } finally {
    resetInterruption();
  }
}
