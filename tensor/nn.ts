/**
 * Layers, models and losses, for programs that import them by themselves:
 * `import * as nn from "@netcl/netcl/nn"`. What is there, and examples, stand in `nn/mod.ts`.
 *
 * @module
 */
// Provides what the methods of tensors do.
import "./methods.ts";

export * from "./nn/mod.ts";
/** Initial values of weights. */
export * as init from "./nn/module/init.ts";
