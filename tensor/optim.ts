/**
 * Optimizers, schedules of their learning rates and clipping, for programs that import them by
 * themselves: `import * as optim from "@netcl/netcl/optim"`. What is there, and examples, stand in
 * `optim/mod.ts`.
 *
 * @module
 */
// Optimizers know the class Tensor as a type: this brings the class.
import "./tensor.ts";

export * from "./optim/mod.ts";
