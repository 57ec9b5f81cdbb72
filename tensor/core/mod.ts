/**
 * The type of tensors, for all that lies below their class.
 *
 * The state of tensors, results of operations, modes and rules lie in this folder, each in its file; what
 * they import is said in `tensor_state.ts`. The class with its methods stands above the operations, and
 * gathers them. This is the one import that goes up, and is gone before anything runs: operations call
 * methods of tensors that they get, and make tensors by `internals.ts`.
 */
export type { Tensor } from "../class/tensor.ts";
