/** Mixed and turned images: what they are made of, what the labels say, what is refused. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { DTypeError, manualSeed, ShapeError, Tensor, transforms } from "../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { assertNumbers } from "../numbers.ts";

/** Images that are full of their own number, and labels that are it. */
function numbered(count: number, side: number): { x: Tensor; labels: Tensor } {
  const x = Tensor.arange(0, count).cast("float32").reshape([count, 1, 1, 1])
    .expand([count, 1, side, side]);
  return { x, labels: Tensor.arange(0, count).cast("int32") };
}

function near(a: number, b: number): boolean {
  return Math.abs(a - b) < 1e-5;
}

testOnBackends("mixup blends each image with its neighbour as the labels say", async () => {
  manualSeed(3);
  const { x, labels } = numbered(4, 3), shares = new Set<number>();
  for (const alpha of [0.2, 1, 5]) {
    for (let draw = 0; draw < 6; draw++) {
      const mixed = transforms.mixup(x, labels, 4, { alpha });
      const images = await mixed.images.toArray() as number[][][][];
      const parts = await mixed.labels.toArray() as number[][];
      const share = parts[0]![0]!;
      assert(share >= 0 && share <= 1, `${share}`);
      shares.add(share);
      for (let k = 0; k < 4; k++) {
        const other = (k + 3) % 4;
        assert(near(parts[k]![k]!, share) && near(parts[k]![other]!, 1 - share));
        assert(images[k]!.flat(2).every((v) => near(v, share * k + (1 - share) * other)));
      }
    }
  }
  assert(shares.size > 10);
});

testOnBackends("shares of mixup have the variance of their distribution", async () => {
  manualSeed(4);
  const { x, labels } = numbered(2, 1);
  for (const [alpha, variance] of [[0.2, 0.25 / 1.4], [1, 1 / 12], [4, 0.25 / 9]] as const) {
    const draws: number[] = [];
    for (let k = 0; k < 200; k++) {
      draws.push((await transforms.mixup(x, labels, 2, { alpha }).labels.toNumbers())[0]!);
    }
    const mean = draws.reduce((a, b) => a + b) / draws.length;
    const found = draws.reduce((sum, v) => sum + (v - mean) ** 2, 0) / draws.length;
    assert(Math.abs(mean - 0.5) < 0.12, `mean ${mean} of alpha ${alpha}`);
    assert(found > variance * 0.6 && found < variance * 1.5, `variance ${found} of ${alpha}`);
  }
});

testOnBackends("cutmix replaces one rectangle, and labels by its area", async () => {
  manualSeed(7);
  const side = 6, { x, labels } = numbered(3, side);
  const areas = new Set<number>();
  for (let draw = 0; draw < 12; draw++) {
    const mixed = transforms.cutmix(x, labels, 3);
    const images = await mixed.images.toArray() as number[][][][];
    const parts = await mixed.labels.toArray() as number[][];
    for (let k = 0; k < 3; k++) {
      const other = (k + 2) % 3, rows = images[k]![0]!;
      const taken = rows.flatMap((row, i) =>
        row.flatMap((v, j) => v === other ? [[i, j] as const] : [])
      );
      assert(rows.flat().every((v) => v === k || v === other));
      const spread = (axis: 0 | 1) => new Set(taken.map((place) => place[axis])).size;
      assertEquals(taken.length, spread(0) * spread(1), "a rectangle");
      assert(near(parts[k]![other]!, taken.length / side ** 2));
      areas.add(taken.length);
    }
  }
  assert(areas.size > 2, `${[...areas]}`);
});

testOnBackends("a rotation turns counterclockwise about the middle", async () => {
  const x = Tensor.arange(0, 2 * 2 * 9).cast("float32").reshape([2, 2, 3, 3]);
  const given = await x.toArray() as number[][][][];
  const turned = await transforms.randomRotation(x, [90, 90]).toArray() as number[][][][];
  const due = given.map((image) =>
    image.map((rows) => rows.map((_, i) => rows.map((row) => row[2 - i]!)))
  );
  assertNumbers(turned.flat(3), due.flat(3), 1e-4);
  manualSeed(2);
  const some = await transforms.randomRotation(x.add(1), 180).toArray() as number[][][][];
  // The middle stays, and each image has an angle of its own.
  const middle = (images: number[][][][]) => images.map((image) => image[0]![1]![1]!);
  assertNumbers(middle(some), middle(given).map((v) => v + 1), 1e-3);
  const p = Tensor.ones([1, 1, 4, 4], { requiresGrad: true });
  transforms.randomRotation(p, [180, 180]).sum().backward();
  assert((await p.grad!.toNumbers()).every((v) => Math.abs(v - 1) < 1e-4));
});

testOnCPU("mixing and turning say what they take", () => {
  const { x, labels } = numbered(2, 2);
  assertThrows(() => transforms.mixup(x.slice(0), labels, 2), ShapeError, "(N, C, H, W)");
  assertThrows(() => transforms.cutmix(x, labels.slice([0, 1]), 2), ShapeError, "labels");
  assertThrows(() => transforms.mixup(x, labels, 2, { alpha: 0 }), RangeError, "alpha");
  assertThrows(() => transforms.mixup(x.cast("uint8"), labels, 2), DTypeError, "float32");
  assertThrows(() => transforms.randomRotation(x, NaN), Error, "degrees");
  assertThrows(() => transforms.randomRotation(x.cast("int32"), 5), DTypeError, "float32");
});
