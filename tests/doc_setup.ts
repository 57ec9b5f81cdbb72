/**
 * Runs before the examples of the documentation: the device is open, as tests have it, and an
 * example fails where its `console.assert` does, which by itself only prints.
 */
import "./opencl.ts";

console.assert = (condition?: unknown, ...message: unknown[]): void => {
  if (!condition) throw new Error(`An example's console.assert failed ${message.join(" ")}`);
};
