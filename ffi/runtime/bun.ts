/**
 * Bun, by its module `bun:ffi`.
 *
 * @module
 */
import type { ForeignFunction, Host } from "./types.ts";
import { type Foreign, systemHost, systemThreadHost } from "./system_host.ts";

type Call = (...args: unknown[]) => unknown;
type Signature = { args: readonly string[]; returns: string; ptr?: number };

/** The part of `bun:ffi` that is used; its types are not known to every compiler. */
interface BunFFI {
  dlopen(path: string, table: Readonly<Record<string, Signature>>): {
    symbols: Record<string, Call>;
    close(): void;
  };
  CFunction(signature: Signature): Call;
  ptr(memory: ArrayBufferView): number;
  toArrayBuffer(address: number, offset: number, nbytes: number): ArrayBuffer;
  readonly CString: new (address: number) => { toString(): string };
}

/** Foreign functions in this thread, or in another one: it may refer to nothing outside. */
function bunForeign(): Foreign {
  const ffi = process.getBuiltinModule("bun:ffi") as unknown as BunFFI;
  const types: Readonly<Record<string, string>> = { usize: "u64", buffer: "ptr" };
  const nameOf = (type: string): string => types[type] ?? type;
  const signatureOf = ({ parameters, result }: ForeignFunction): Signature => ({
    args: parameters.map(nameOf),
    returns: nameOf(result),
  });
  type Entry = readonly [key: string, definition: ForeignFunction];
  const symbolOf = ([key, { name = key }]: Entry): string => name;
  /** Functions of different names; Bun refuses all where the library lacks one. */
  const open = (path: string, entries: readonly Entry[]): ReturnType<BunFFI["dlopen"]> =>
    ffi.dlopen(
      path,
      Object.fromEntries(entries.map((entry) => [symbolOf(entry), signatureOf(entry[1])])),
    );
  const failure = (error: unknown, path: string): Error => {
    const { message } = error as Error, symbol = /Symbol "([^"]+)" not found/.exec(message);
    const text = symbol
      ? `Failed to register symbol ${symbol[1]}: ${path} lacks it`
      : `Could not open library: ${message}`;
    return new Error(text, { cause: error });
  };
  return {
    dlopen: (path, functions) => {
      const entries: Entry[] = Object.entries(functions);
      const isTwin = (entry: Entry, k: number): boolean =>
        entries.findIndex((other) => symbolOf(other) === symbolOf(entry)) < k;
      const symbols: Record<string, unknown> = {}, close: (() => void)[] = [];
      const take = (group: readonly Entry[]): void => {
        const library = open(path, group);
        for (const entry of group) symbols[entry[0]] = library.symbols[symbolOf(entry)];
        close.push(() => library.close());
      };
      try {
        try {
          take(entries.filter((entry, k) => !isTwin(entry, k)));
        } catch {
          take(entries.filter((entry, k) => !isTwin(entry, k) && !entry[1].optional));
        }
        const missing = entries.filter(([key]) => !(key in symbols));
        for (const entry of missing) {
          try {
            take([entry]);
          } catch (error) {
            if (!entry[1].optional) throw error;
            symbols[entry[0]] = null;
          }
        }
      } catch (error) {
        throw failure(error, path);
      }
      return { symbols: symbols as never, close: () => close.forEach((one) => one()) };
    },
    functionAt: (address, definition) =>
      ffi.CFunction({ ...signatureOf(definition), ptr: Number(address) }) as never,
    memoryAt: (address, nbytes) => ffi.toArrayBuffer(Number(address), 0, nbytes),
    addressOf: (view) => BigInt(ffi.ptr(view)),
    cString: (address) => new ffi.CString(Number(address)).toString(),
  };
}

/** Bun as the host. */
export const host: Host = systemHost({
  runtime: "bun",
  collector: () => () =>
    (globalThis as unknown as { Bun: { gc(now: boolean): void } }).Bun.gc(true),
  foreign: bunForeign(),
  threadHost: `(${systemThreadHost})((${bunForeign})().dlopen)`,
  ownArguments: [],
});
