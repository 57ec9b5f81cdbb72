/** Ways for programs that signals are sent to to pass their time, without wearing the cores. */

/** Waits, while the event loop goes on. */
export function nap(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Keeps this thread in JavaScript for so long: its event loop does not turn meanwhile. */
export function stayInJavaScript(ms: number): void {
  const cell = new Int32Array(new SharedArrayBuffer(4));
  for (const end = performance.now() + ms; performance.now() < end;) Atomics.wait(cell, 0, 0, 1);
}
