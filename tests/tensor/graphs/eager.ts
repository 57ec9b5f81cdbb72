/** Prints what random graphs are where every operation runs at once: for a process with NETCL_EAGER=1. */
import fc from "fast-check";
import { isEager } from "../../../backend/internal.ts";
import { withDevice } from "../../../mod.ts";
import { build, graphs } from "./graph.ts";

if (import.meta.main) {
  if (!isEager()) throw new Error("Set NETCL_EAGER=1");
  const [backend, seed, numRuns] = Deno.args;
  const sample = fc.sample(graphs(8), { seed: Number(seed), numRuns: Number(numRuns) });
  const values = withDevice(
    backend!,
    () =>
      sample.map((graph) =>
        build(graph).map((t) =>
          [...t.toHostSync() as Iterable<number | bigint>].map(Number).map(String)
        )
      ),
  );
  console.log(JSON.stringify(values));
}
