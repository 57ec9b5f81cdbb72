/** Values that stay for what is computed later: the nearest in memory to what that reads. */
import { assertEquals } from "@std/assert";
import type { Node } from "../../../backend/graph/node.ts";
import { type Schedule, schedule } from "../../../backend/schedule/schedule.ts";
import { labels, leaf, map, product, sum } from "./nodes.ts";

/** The plan of a value, and the nodes that stay of it. */
function read(out: Node, ...later: Node[]): { plan: Schedule; saved: Node[] } {
  const plan = schedule([out], { later });
  return { plan, saved: plan.saved.map((at) => plan.order[at]!) };
}

const wide = (): Node => leaf([64, 6]), weight = (): Node => leaf([6, 6]);

Deno.test("savedForLater: the kernels of a value are those that it has alone", () => {
  const hidden = (): Node => map("exp", product(wide(), weight())), x = hidden(), y = hidden();
  const alone = schedule([sum(product(x, weight()), 1)]);
  const { plan, saved } = read(sum(product(y, weight()), 1), map("mul", y, map("neg", y)));
  assertEquals(labels(plan), labels(alone));
  assertEquals(saved, [y]);
});

Deno.test("savedForLater: what is computed of a saved value is computed again", () => {
  const y = product(wide(), weight()), inner = map("exp", map("neg", y));
  const out = sum(product(map("add", y, inner), weight()), 1);
  assertEquals(read(out, map("mul", inner, y)).saved, [y]);
});

Deno.test("savedForLater: a product or a sum that no kernel leaves is stored by that which computes it", () => {
  const y = product(wide(), weight()), out = product(map("exp", y), weight());
  const { plan, saved } = read(out, map("neg", map("sin", y)));
  assertEquals(saved, [y]);
  assertEquals(labels(plan).length, labels(schedule([product(map("exp", y), weight())])).length);
});

Deno.test("savedForLater: a small value that sums are read for is saved as it is read", () => {
  const y = product(wide(), leaf([6, 16])), root = map("rsqrt", sum(map("mul", y, y), 1));
  const { saved } = read(sum(map("neg", root), 0), map("exp", root), map("neg", y));
  assertEquals(new Set(saved), new Set([root, y]));
});

Deno.test("savedForLater: what is made of values in memory alone is not saved", () => {
  const x = map("exp", wide()), out = sum(product(map("neg", x), weight()), 1);
  assertEquals(read(out, map("sin", map("cos", map("neg", leaf())))).saved, []);
  assertEquals(read(out, map("sin", map("cos", x))).plan.saved.length <= 1, true);
});
