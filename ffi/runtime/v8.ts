/**
 * V8, the engine of Deno and Node.
 *
 * @module
 */
import process from "node:process";

/** V8's collector, which it hands out once the flag is set, and only to contexts that are made later. */
export function v8Collector(): () => void {
  process.getBuiltinModule("node:v8").setFlagsFromString("--expose-gc");
  return process.getBuiltinModule("node:vm").runInNewContext("gc") as () => void;
}
