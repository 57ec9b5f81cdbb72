/** Collective operations on tensors of every type; run by group_test.ts on several ranks. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { device, distributed, type DType, Tensor } from "../../mod.ts";
import { wayOf } from "./ways/way.ts";

const { way, args } = wayOf(import.meta.url);
using _dev = device(args[0]!);
using group = distributed.init();
const { rank, size } = group, ranks = Array.from({ length: size }, (_, r) => r);
assertEquals(size, Number(Deno.env.get("OMPI_COMM_WORLD_SIZE")));
assertEquals([rank, group.localRank], [rank, rank]);

const all = await group.allGather(Tensor.fromHost([group.seed], { dtype: "int64" }));
assertEquals(new Set(await all.toArray() as number[]).size, 1);

/** Of rank r: r + 1, 10 (r + 1), 3 - r. */
function values(r: number): number[] {
  return [r + 1, 10 * (r + 1), 3 - r];
}
const columns = [0, 1, 2].map((k) => ranks.map((r) => values(r)[k]!));
const sums = columns.map((column) => column.reduce((a, b) => a + b));
const dtypes: DType[] = ["float32", "float16", "bfloat16", "float64", "int32", "int64", "uint8"];
for (const dtype of dtypes) {
  const of = () => Tensor.fromHost(values(rank), { dtype });
  const expected = {
    sum: sums,
    mean: sums.map((x) => x / size),
    max: columns.map((column) => Math.max(...column)),
    min: columns.map((column) => Math.min(...column)),
  };
  for (const op of ["sum", "mean", "max", "min"] as const) {
    const x = of(), before = x.mul(2);
    if (op === "mean" && !dtype.includes("float")) {
      await assertRejects(() => group.allReduce([x], op), TypeError, "cast() to float32");
      continue;
    }
    await group.allReduce([x], op);
    assertEquals(await x.toNumbers(), expected[op], `${op} of ${dtype}`);
    assertEquals(x.dtype, dtype);
    assertEquals(await before.toNumbers(), values(rank).map((v) => 2 * v), "the former value");
  }
  const sent = of();
  await group.broadcast([sent], size - 1);
  assertEquals(await sent.toNumbers(), values(size - 1), `broadcast of ${dtype}`);
  const gathered = await group.allGather(of());
  assertEquals(await gathered.toNumbers(), ranks.flatMap(values), `allGather of ${dtype}`);
  const wide = Tensor.concat(ranks.map((r) => Tensor.fromHost([r, rank], { dtype })));
  const part = await group.reduceScatter(wide, "sum");
  const total = ranks.reduce((a, b) => a + b);
  assertEquals(await part.toNumbers(), [rank * size, total], `reduceScatter of ${dtype}`);
  const largest = await group.reduceScatter(wide, "max");
  assertEquals(await largest.toNumbers(), [rank, size - 1]);
}

const flags = Tensor.fromHost([rank === 0, false, true], { dtype: "bool" });
await group.allReduce([flags], "max");
assertEquals(await flags.toArray(), [true, false, true]);
await assertRejects(() => group.allReduce([flags], "sum"), TypeError, "bool");

const odd = Tensor.fromHost([rank === 1 ? NaN : rank, -rank]);
for (const op of ["max", "min", "sum"] as const) {
  const x = odd.detach();
  await group.allReduce([x], op);
  assert(Number.isNaN((await x.toNumbers())[0]), `${op} keeps NaN`);
  assert(Number.isFinite((await x.toNumbers())[1]));
}

// Several at once, more than a bucket, views, empty and scalar ones: in the order of the calls.
const large = Tensor.full([7 * 2 ** 20], rank + 1),
  view = Tensor.arange(6).reshape([2, 3]).transpose();
const empty = Tensor.zeros([0, 3]), scalar = Tensor.fromHost(rank), other = Tensor.fromHost(rank);
const pending = [
  group.allReduce([large, view, empty], "sum"),
  group.allReduce([scalar], "max"),
  group.broadcast([other], 0),
];
await Promise.all(pending);
assertEquals(await large.sum().item(), 7 * 2 ** 20 * size * (size + 1) / 2);
assertEquals(await view.toArray(), [[0, 3], [1, 4], [2, 5]].map((row) => row.map((x) => x * size)));
assertEquals([await scalar.item(), await other.item()], [size - 1, 0]);
assertEquals(empty.shape, [0, 3]);

// Ranks of different lengths.
const ragged = await group.allGather(Tensor.full([rank + 1, 2], rank));
assertEquals(await ragged.toArray(), ranks.flatMap((r) => Array(r + 1).fill([r, r])));

const wrong = Tensor.ones([2], { requiresGrad: true }).mul(2);
await assertRejects(() => group.allReduce([wrong], "sum"), TypeError, "detach()");
await assertRejects(() => group.broadcast([scalar], size), RangeError, `0 to ${size - 1}`);
await assertRejects(
  () => group.reduceScatter(Tensor.ones([2 * size + 1]), "sum"),
  RangeError,
  "pad()",
);

// The event loop goes on while a rank waits for the others.
let turns = 0;
const timer = setInterval(() => turns++, 5);
if (rank === 0) await new Promise((resolve) => setTimeout(resolve, 400));
await group.barrier();
clearInterval(timer);
assert(turns > 3, `${turns} turns`);
console.log(`rank ${rank} of ${size}, ${way}: good`);
