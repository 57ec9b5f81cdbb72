/**
 * Mixed precision, for programs that import it by itself: `import * as amp from "@netcl/netcl/amp"`.
 * What is there stands in `amp/mod.ts`.
 *
 * @module
 */
// It knows the class Tensor as a type: this brings the class.
import "./tensor.ts";

export * from "./amp/mod.ts";
