/**
 * The type of tensors for modules below the class. It is the one import that goes up, and is gone before
 * anything runs: operations call methods of tensors that they get, and make tensors by `internals.ts`.
 */
export type { Tensor } from "../class/tensor.ts";
