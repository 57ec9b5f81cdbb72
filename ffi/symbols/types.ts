/**
 * Marks of OpenCL objects in the symbol tables, and the types that follow from
 * a table.
 *
 * This folder (`symbols/`) is the C declarations as data: every function of OpenCL 1.0 to 3.0 and of
 * the extensions that netcl uses, by object. It imports nothing; `library/` makes functions of it.
 *
 * @module
 */

/**
 * A raw OpenCL handle: the object's address as a bigint, because that is what the engine passes to
 * C without a detour (6 ns a call; a pointer object must first be made, a number takes 90 ns).
 * `Kind` keeps a context from being passed where a memory object is due.
 */
export type Handle<Kind extends string = string> = bigint & { readonly kind: Kind };

/** A handle's entry in a symbol table: an unsigned 64-bit integer that stands for a `Kind`. */
export type HandleType<Kind extends string> = "u64" & { readonly kind: Kind };

/** cl_platform_id */
export const Platform: HandleType<"Platform"> = "u64" as HandleType<"Platform">;
/** cl_device_id */
export const Device: HandleType<"Device"> = "u64" as HandleType<"Device">;
/** cl_context */
export const Context: HandleType<"Context"> = "u64" as HandleType<"Context">;
/** cl_command_queue */
export const CommandQueue: HandleType<"CommandQueue"> = "u64" as HandleType<"CommandQueue">;
/** cl_mem */
export const Mem: HandleType<"Mem"> = "u64" as HandleType<"Mem">;
/** cl_sampler */
export const Sampler: HandleType<"Sampler"> = "u64" as HandleType<"Sampler">;
/** cl_program */
export const Program: HandleType<"Program"> = "u64" as HandleType<"Program">;
/** cl_kernel */
export const Kernel: HandleType<"Kernel"> = "u64" as HandleType<"Kernel">;
/** cl_event */
export const Event: HandleType<"Event"> = "u64" as HandleType<"Event">;
/** cl_command_buffer_khr */
export const CommandBuffer: HandleType<"CommandBuffer"> = "u64" as HandleType<"CommandBuffer">;

/** Kinds of C values in the tables: every pointer into JavaScript memory is a `"buffer"`. */
export type ValueType = "u32" | "i32" | "u64" | "usize" | "buffer" | HandleType<string>;

/** One C function. `since` is the OpenCL version that brought it; 1.0 where it is left out. */
export interface FunctionType {
  /** Name in the library, where it differs from the key. */
  readonly name?: string;
  /** Its parameters. */
  readonly parameters: readonly ValueType[];
  /** Its result. */
  readonly result: "i32" | "u64" | "void" | HandleType<string>;
  /** Runs on another thread and returns a promise. */
  readonly nonblocking?: true;
  /** The OpenCL version that brought it. */
  readonly since?: string;
}

/** A table of C functions. */
export type FunctionTable = { readonly [name: string]: FunctionType };

/** Memory that C may read or write during a call: a view's offset and length are honoured. */
export type Memory = ArrayBufferView<ArrayBufferLike> | ArrayBuffer | null;

/** The TypeScript value of one C value. */
export type Value<T> = T extends "u32" | "i32" ? number
  : T extends "buffer" ? Memory
  : T extends "void" ? void
  : T extends HandleType<infer Kind> ? Handle<Kind>
  : bigint;

/** The TypeScript values of a list of C values. */
export type Values<T extends readonly ValueType[]> = { -readonly [I in keyof T]: Value<T[I]> };

/** The TypeScript signature of one table entry. */
export type Call<F extends FunctionType> = (
  ...args: Values<F["parameters"]>
) => F extends { readonly nonblocking: true } ? Promise<Value<F["result"]>> : Value<F["result"]>;

/** The TypeScript signatures of a table. */
export type Calls<T extends FunctionTable> = { [K in keyof T]: Call<T[K]> };
