/**
 * Runs before the examples of the documentation. They are whole programs, which open a device and
 * leave it to the end of the process, so they are not searched for leaks; and one fails where its
 * `console.assert` does, which by itself only prints.
 */
const test = Deno.test;

Object.defineProperty(Deno, "test", {
  value: (name: string, fn: () => void | Promise<void>) =>
    test({ name, fn, sanitizeOps: false, sanitizeResources: false, sanitizeExit: false }),
});

console.assert = (condition?: unknown, ...message: unknown[]): void => {
  if (!condition) throw new Error(`An example's console.assert failed ${message.join(" ")}`);
};
