import { assert, assertEquals } from "@std/assert";
import { OwnerTable } from "../../../memory/fences/owner_table.ts";
import { FakeQueue } from "./fake_queue.ts";

Deno.test("OwnerTable gives each queue one owner, and ids without gaps", () => {
  const first = new FakeQueue("default"), second = new FakeQueue("second");
  const table = new OwnerTable(first, () => false);
  assert(table.isSingleQueue);
  assert(table.of(undefined) === table.default && table.of(first) === table.default);
  assert(table.of(second) === table.of(second));
  assertEquals([table.default.id, table.nobody.id, table.of(second).id], [0, 1, 2]);
  assert(!table.isSingleQueue);
});

Deno.test("OwnerTable reuses the id of a queue that is released, once nothing free is its own", () => {
  const queues = ["a", "b", "c"].map((name) => new FakeQueue(name));
  const [a, b, c] = queues as [FakeQueue, FakeQueue, FakeQueue];
  const withFree = new Set<number>([2]);
  const table = new OwnerTable(undefined, ({ id }) => withFree.has(id));
  const former = table.of(a);
  a.released = true;
  assertEquals(table.of(b).id, 3, "a free block is still a's");
  withFree.delete(2);
  assertEquals(table.of(c).id, former.id);
  assertEquals(table.othersWithFree(table.default), []);
});
