/** Counts the calls of OpenCL's functions. */
import { cl, replaceSymbols } from "../../ffi/library/library.ts";
import type { OpenCLSymbols } from "../../ffi/library/symbols.ts";

/** Counts until it is disposed of; an asynchronous function counts by the name that it has in C. */
export function countingCalls(): Disposable & { readonly counts: ReadonlyMap<string, number> } {
  const counts = new Map<string, number>();
  const genuine = cl as unknown as Record<string, (...args: unknown[]) => unknown>;
  const counting = Object.fromEntries(
    Object.keys(genuine).map((name) => [name, (...args: unknown[]) => {
      const cName = name.replace(/Async$/, "");
      counts.set(cName, (counts.get(cName) ?? 0) + 1);
      return genuine[name]!(...args);
    }]),
  );
  const former = replaceSymbols(counting as unknown as OpenCLSymbols);
  return { counts, [Symbol.dispose]: () => void replaceSymbols(former) };
}
