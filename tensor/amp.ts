/**
 * Mixed precision, for programs that import it by itself: `import * as amp from "@netcl/netcl/amp"`.
 * What is there stands in `amp/mod.ts`.
 *
 * @module
 */
// Provides what the methods of tensors do.
import "./methods.ts";

export * from "./amp/mod.ts";
