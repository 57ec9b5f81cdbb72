/** Numbers of programs of several ranks: what a model has learned, and that all ranks have the same. */
import { assertEquals } from "@std/assert";
import { type distributed, type nn, Tensor } from "../../../mod.ts";

/** The values of all parameters, one after the other. */
export async function valuesOf(model: Pick<nn.Module, "parameters">): Promise<number[]> {
  const all = await Promise.all(model.parameters().map((p) => p.cast("float32").toNumbers()));
  return all.flat();
}

/** Every rank has the same bits. */
export async function assertSameEverywhere(
  group: distributed.Group,
  values: readonly number[],
  what: string,
): Promise<void> {
  const all = await group.allGather(Tensor.fromHost([...values], { dtype: "float32" }));
  const rows = await all.reshape([group.size, values.length]).toArray() as number[][];
  for (const row of rows) assertEquals(row, rows[0], what);
}
