/**
 * Node, by its experimental module `node:ffi`.
 *
 * @module
 */
import type { Host } from "./types.ts";
import { type Foreign, systemHost, systemThreadHost } from "./system_host.ts";
import { v8Collector } from "./v8.ts";

type Call = (...args: unknown[]) => unknown;

/** The part of `node:ffi` (Node 26.4) that is used; its types are not known to every compiler. */
interface NodeFFI {
  readonly DynamicLibrary: new (path: string) => {
    getFunction(
      name: string,
      signature: { arguments: readonly string[]; return: string },
    ): Call;
    close(): void;
  };
  getRawPointer(memory: ArrayBufferView): bigint;
  toArrayBuffer(address: bigint, nbytes: number, copy: boolean): ArrayBuffer;
  toString(address: bigint): string;
}

/** Foreign functions in this thread, or in another one: it may refer to nothing outside. */
function nodeForeign(): Foreign {
  // Not imported: Node finds the module where it has it, and the error says which version does.
  const ffi = process.getBuiltinModule("node:ffi") as unknown as NodeFFI | undefined;
  if (ffi === undefined) {
    throw new Error(
      `Cannot call C functions with Node ${process.versions.node}: it takes Node 26.4 or newer, ` +
        "which has node:ffi, without --no-experimental-ffi",
    );
  }
  const types: Readonly<Record<string, string>> = {
    ...{ void: "void", i32: "int32", u32: "uint32", i64: "int64", u64: "uint64" },
    ...{ usize: "uint64", f32: "float32", f64: "float64", buffer: "pointer" },
  };
  type Opened = InstanceType<NodeFFI["DynamicLibrary"]>;
  const open = (path: string): Opened => {
    try {
      return new ffi.DynamicLibrary(path);
    } catch (error) {
      throw new Error(`Could not open library: ${(error as Error).message}`, { cause: error });
    }
  };
  return {
    dlopen: (path, functions) => {
      const library = open(path), symbols: Record<string, unknown> = {};
      for (const [key, { name = key, parameters, result, optional }] of Object.entries(functions)) {
        try {
          symbols[key] = library.getFunction(name, {
            arguments: parameters.map((type) => types[type]!),
            return: types[result]!,
          });
        } catch (error) {
          if (!optional) {
            const { message } = error as Error;
            throw new Error(`Failed to register symbol ${name}: ${message}`, { cause: error });
          }
          symbols[key] = null;
        }
      }
      return { symbols: symbols as never, close: () => library.close() };
    },
    functionAt: () => {
      throw new Error("node:ffi calls functions by their names in a library only");
    },
    memoryAt: (address, nbytes) => ffi.toArrayBuffer(address, nbytes, false),
    addressOf: (view) => ffi.getRawPointer(view),
    cString: (address) => ffi.toString(address),
  };
}

let opened: Foreign | undefined;

/** The foreign functions, at the first use: importing the package opens nothing. */
const foreign = (): Foreign => opened ??= nodeForeign();

/** Node as the host. */
export const host: Host = systemHost({
  runtime: "node",
  collector: v8Collector,
  foreign: {
    dlopen: (path, functions) => foreign().dlopen(path, functions),
    functionAt: (address, definition) => foreign().functionAt(address, definition),
    memoryAt: (address, nbytes) => foreign().memoryAt(address, nbytes),
    addressOf: (view) => foreign().addressOf(view),
    cString: (address) => foreign().cString(address),
  },
  // A thread need not warn that node:ffi is experimental: the main one does.
  threadHost: `(process.removeAllListeners("warning"), ` +
    `(${systemThreadHost})((${nodeForeign})().dlopen))`,
  ownArguments: ["--disable-warning=ExperimentalWarning"],
});
