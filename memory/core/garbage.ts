import process from "node:process";

let collect: (() => void) | null = null;

/** Runs V8's garbage collector now; finalizers run in a later turn of the event loop. */
export function runCollector(): void {
  if (collect === null) {
    // V8 only hands out gc() once the flag is set, and only to contexts that are made later.
    process.getBuiltinModule("node:v8").setFlagsFromString("--expose-gc");
    collect = process.getBuiltinModule("node:vm").runInNewContext("gc") as () => void;
  }
  collect();
}
