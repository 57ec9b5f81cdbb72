/**
 * Layers, models and losses, for programs that import them by themselves:
 * `import * as nn from "@netcl/netcl/nn"`. What is there, and examples, stand in `nn/mod.ts`.
 *
 * @module
 */
// Layers know the class Tensor as a type: this brings the class.
import "./tensor.ts";

export * from "./nn/mod.ts";
/** Initial values of weights. */
export * as init from "./nn/module/init.ts";
