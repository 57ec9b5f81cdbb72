/** Errors of einsum for equations that are none, and how it fits beside the other operations. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { amp, compile, einsum, ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

const a = (): Tensor => Tensor.ones([2, 3]);

Deno.test("einsum refuses what its operands do not fit, and names it", () => {
  const refused: [string, Tensor[], string][] = [
    ["ij,jk", [a()], "it names 2 operand(s), and 1 are given"],
    ["ijk", [a()], '"ijk" names 3 axes, and its operand has the shape [2, 3]'],
    ["ij,ij->", [a(), a().transpose()], "more than one size"],
    ["ii", [a()], "more than one size"],
    ["ij->k", [a()], 'no operand has the axis "k"'],
    ["ij->ii", [a()], 'names "i" twice'],
    ["i1", [a()], "labels are the letters"],
    ["ij->i->j", [a()], "more than one arrow"],
  ];
  for (const [equation, tensors, text] of refused) {
    assertThrows(() => einsum(equation, ...tensors), Error, text);
  }
  assertThrows(() => einsum("ij,jk", a(), a()), ShapeError);
  assertThrows(() => einsum("ij,ij", a(), a().cast("int32")), TypeError, "cast all to one type");
  assertThrows(() => einsum("ij", 3 as unknown as Tensor), TypeError, "pass a tensor");
});

testOnBackends("einsum is replayed by compile, and follows autocast", () => {
  const step = compile((x: Tensor, w: Tensor) => einsum("bi,ij->bj", x, w).sum());
  for (let k = 1; k < 5; k++) {
    assertEquals(step(Tensor.full([2, 3], k), Tensor.ones([3, 4])).itemSync(), 24 * k);
  }
  const half = amp.autocast("float16", () => einsum("ij,kj->ik", a(), a()));
  assertEquals(half.dtype, "float16");
});

testOnBackends("einsum joins the cheapest pair first", () => {
  // From left to right there would be a matrix of 2000 by 2000.
  const [x, y, v] = [Tensor.ones([2000, 1]), Tensor.ones([1, 2000]), Tensor.ones([2000])];
  const out = einsum("ij,jk,k->i", x, y, v);
  assert(!out.explain().includes("4000000"));
  assertEquals(out.slice(0).itemSync(), 2000);
});
