import { assert, assertEquals } from "@std/assert";
import { drawConfusion } from "../../examples/train/confusion.ts";

Deno.test("a confusion matrix has a cell for each pair of classes and writes what was counted", () => {
  const svg = drawConfusion([[7, 0], [2, 11]], ["cat & co", "<dog>"], "a < b");
  assertEquals(svg.match(/class="track"/g)?.length, 4);
  const numbers = [...svg.matchAll(/<text class="(?:on)?"[^>]*>(\d+)<\/text>/g)];
  assertEquals(numbers.map(([, count]) => count), ["7", "2", "11"]);
  assert(svg.includes("cat &amp; co") && svg.includes("&lt;dog>") && svg.includes("a &lt; b"));
});

Deno.test("a class that did not occur is a row without a shade", () => {
  const svg = drawConfusion([[0, 0], [0, 3]], ["a", "b"], "t");
  assert(!svg.includes("NaN"));
  assertEquals(svg.match(/fill-opacity="1.000"/g)?.length, 1);
});
