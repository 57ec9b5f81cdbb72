/** Shared virtual memory that goes back to the driver, counted. */
import { cl, replaceSymbols } from "../../ffi/library/library.ts";
import type { OpenCLSymbols } from "../../ffi/library/symbols.ts";

/** Counts how often shared memory is freed while `fn` runs. */
export function countingFrees(fn: (frees: () => number) => void): void {
  let count = 0;
  const former = replaceSymbols(
    {
      ...cl,
      clSVMFree: (...args: Parameters<OpenCLSymbols["clSVMFree"]>) => {
        count++;
        former.clSVMFree(...args);
      },
    } as OpenCLSymbols,
  );
  try {
    fn(() => count);
  } finally {
    replaceSymbols(former);
  }
}
