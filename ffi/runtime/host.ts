/**
 * The runtime that this program runs on. In the npm package this module is another: it takes the
 * implementation that package.json names for the runtime.
 *
 * @module
 */
export { host } from "./deno.ts";
