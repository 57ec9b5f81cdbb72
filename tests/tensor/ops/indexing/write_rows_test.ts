/** Rows that are written in place: what they change, and what keeps its value. */
import { assert, assertEquals } from "@std/assert";
import { noGrad, Tensor } from "../../../../mod.ts";
import { isEager } from "../../../../backend/internal.ts";
import { nodeOf } from "../../../../tensor/core/internals.ts";
import { act } from "../../../../tensor/core/operations.ts";
import { compileRepeatable } from "../../../../tensor/compile/compile.ts";
import { writeRows } from "../../../../tensor/execution/assignment.ts";
import { testOnBackends } from "../../../opencl.ts";

const rows = (...places: number[]) =>
  Tensor.fromHost(Int32Array.from(places), { shape: [1, places.length, 1] });
const blockOf = (x: Tensor) => nodeOf(x).storage!.handle;
const range = (shape: number[]) => Tensor.full([1], 1).indexLike(shape).cast("float32").realize();

testOnBackends("rows are written in place, and the others stay", async () => {
  const x = range([2, 3, 2]), block = blockOf(x);
  writeRows(x, 1, rows(2), Tensor.full([2, 1, 2], -1));
  assertEquals(await x.toArray(), [[[0, 1], [2, 3], [-1, -1]], [[6, 7], [8, 9], [-1, -1]]]);
  // Twice before anything is computed, and each matrix at places of its own.
  writeRows(x, 1, rows(0), Tensor.full([2, 1, 2], -2));
  const own = Tensor.fromHost(Int32Array.of(0, 1), { shape: [2, 1, 1] });
  writeRows(x, 1, own, Tensor.full([2, 1, 2], -3));
  assertEquals(await x.toArray(), [[[-3, -3], [2, 3], [-1, -1]], [[-2, -2], [-3, -3], [-1, -1]]]);
  assert(isEager() || blockOf(x) === block);
});

testOnBackends("what else needs the value keeps it: the rows are written to a copy", async () => {
  const x = range([1, 2, 2]), block = blockOf(x), same = x.detach(), pending = x.mul(10);
  writeRows(x, 1, rows(1), Tensor.full([1, 1, 2], 7));
  assertEquals(await x.toArray(), [[[0, 1], [7, 7]]]);
  assertEquals(await same.toArray(), [[[0, 1], [2, 3]]]);
  assertEquals(await pending.toArray(), [[[0, 10], [20, 30]]]);
  assert(blockOf(x) !== block);
  // A row that is out of range is an error of the read.
  writeRows(x, 1, rows(2), Tensor.full([1, 1, 2], 7));
  const error = await x.toArray().then(() => null, (error) => error);
  assert(error instanceof RangeError && /writeRows.*2/s.test(error.message), `${error}`);
});

testOnBackends("a compiled call writes in place, and spares a value that somebody took", () => {
  return noGrad(async () => {
    const x = range([1, 5, 1]), at = Tensor.zeros([1], { dtype: "int32" }).realize();
    const step = compileRepeatable((x: Tensor, at: Tensor) => {
      const row = at.cast("float32").mul(10).reshape([1, 1, 1]);
      act("assign", writeRows, x, 1, at.reshape([1, 1, 1]), row);
      at.assign(at.add(1));
      return x.sum();
    });
    const block = blockOf(x);
    assertEquals(await step.call(x, at).item(), 10);
    assertEquals(await step.again(x, at).item(), 19);
    assertEquals(await step.call(x, at).item(), 37);
    assert(isEager() || blockOf(x) === block);
    const taken = x.detach();
    assertEquals(await step.again(x, at).item(), 64);
    assertEquals(await taken.sum().item(), 37);
    assertEquals(await step.again(x, at).item(), 100);
  });
});
