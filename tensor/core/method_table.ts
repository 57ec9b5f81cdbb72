/**
 * What the methods of `Tensor` do. The class is documentation and signatures; the functions behind them
 * belong to folders that import this one, so that they are handed in: `tensor/methods.ts` does, which
 * importing any entry point of the package evaluates first.
 */
import type { BufferHandle } from "../../memory/mod.ts";
import type { Tensor } from "./tensor.ts";

/** The members of a type that are functions with a name. */
type MethodsOf<T> = {
  [
    K in keyof T as K extends string ? T[K] extends (...args: never[]) => unknown ? K : never
      : never
  ]: T[K];
};

/** The function behind a method: it takes the tensor first. */
type OnTensor<F> = F extends (...args: infer A) => infer R ? (x: Tensor, ...args: A) => R : never;

/** A function for each method: a method without one does not compile. */
export type Methods =
  & { readonly [K in keyof MethodsOf<Tensor>]: OnTensor<Tensor[K]> }
  & {
    /** The text of `console.log`. */
    readonly inspect: (x: Tensor) => string;
    /** The text of a template literal. */
    readonly toPrimitive: (x: Tensor, hint: string) => string;
    /** Behind `requiresGrad`. */
    readonly setRequiresGrad: (x: Tensor, value: boolean) => void;
    /** Behind `grad`. */
    readonly setGrad: (x: Tensor, gradient: Tensor | null) => void;
    /** Behind `buffer`, `poolHandle` and `queue`. */
    readonly exportBlock: (what: string, x: Tensor) => BufferHandle;
  };

/** A function for each static method. */
export type Statics = Readonly<MethodsOf<typeof Tensor>>;

/** A table whose rows are not there yet: looking at one says what is missing. */
function missing<T extends object>(): T {
  return new Proxy({}, {
    get: (_, name) => {
      throw new Error(
        `Cannot call ${
          String(name)
        } of tensors yet: import tensor/methods.ts, or tensor/mod.ts, first`,
      );
    },
  }) as T;
}

/** The functions behind methods. */
export let methods: Methods = missing();

/** The functions behind static methods. */
export let statics: Statics = missing();

/** Hands in what methods do. */
export function provideMethods(provided: { methods: Methods; statics: Statics }): void {
  ({ methods, statics } = provided);
}
