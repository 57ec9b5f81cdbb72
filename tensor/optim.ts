/**
 * Optimizers, schedules of their learning rates and clipping, for programs that import them by
 * themselves: `import * as optim from "@netcl/netcl/optim"`. What is there, and examples, stand in
 * `optim/mod.ts`.
 *
 * @module
 */
// Provides what the methods of tensors do.
import "./methods.ts";

export * from "./optim/mod.ts";
