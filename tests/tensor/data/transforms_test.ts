/** Changes of images: what they do to values, whom they choose, what they refuse. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import {
  DataLoader,
  manualSeed,
  ShapeError,
  Tensor,
  TensorDataset,
  transforms,
} from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

type Images = number[][][][];

testOnBackends("flips choose each image by itself, and leave or flip it whole", async () => {
  manualSeed(5);
  const x = Tensor.arange(64 * 2 * 2 * 3).reshape([64, 2, 2, 3]);
  const given = await x.toArray() as Images;
  const mirrored = (image: number[][][]) => image.map((c) => c.map((row) => row.toReversed()));
  const turned = (image: number[][][]) => image.map((c) => c.toReversed());
  const { randomHorizontalFlip, randomVerticalFlip } = transforms;
  const flips = [[randomHorizontalFlip, mirrored], [randomVerticalFlip, turned]] as const;
  for (const [flip, change] of flips) {
    const found = await flip(x).toArray() as Images;
    const flipped = found.filter((image, k) => {
      if (`${image}` === `${given[k]}`) return false;
      assertEquals(image, change(given[k]!));
      return true;
    });
    assert(flipped.length > 15 && flipped.length < 49, `${flipped.length} of 64`);
    assertEquals(await flip(x, 0).toArray(), given);
    assertEquals(await flip(x, 1).toArray(), given.map(change));
  }
});

testOnBackends("a crop is a window of the padded image, at every place", async () => {
  manualSeed(6);
  const x = Tensor.arange(1, 1 + 3 * 4).reshape([1, 1, 3, 4]).expand([200, 1, 3, 4]);
  const windows = new Set<string>();
  for (let i = 0; i < 4; i++) {
    for (let j = 0; j < 3; j++) {
      const at = (y: number, z: number) => y < 1 || y > 3 || z < 1 || z > 4 ? 0 : (y - 1) * 4 + z;
      windows.add([0, 1].map((a) => [0, 1, 2, 3].map((b) => at(i + a, j + b))).join());
    }
  }
  const found = await transforms.randomCrop(x, [2, 4], { padding: 1 }).toArray() as Images;
  assertEquals(new Set(found.map((image) => image[0]!.join())), windows);
  const big = () => transforms.randomCrop(x, 4);
  assertThrows(big, ShapeError, "[4, 4]");
  assertThrows(() => transforms.randomCrop(x.slice(0), 2), ShapeError, "N, C, H, W");
  assertThrows(() => transforms.normalize(x, [1, 2], [1]), ShapeError, "2 means");
  const p = Tensor.ones([2, 1, 4, 4], { requiresGrad: true });
  transforms.randomCrop(p, 2).sum().backward();
  assertEquals(await p.grad!.sum().item(), 8);
});

testOnBackends("weights say how often a sample is drawn, also where a loader goes on", async () => {
  const data = Float32Array.from({ length: 400 }, (_, k) => k);
  const dataset = new TensorDataset({ data, shape: [400] });
  const weights: number[] = Array.from({ length: 400 }, (_, k) => k < 200 ? 0 : k < 300 ? 3 : 1);
  for (const seed of [undefined, 3]) {
    manualSeed(2);
    const options = { batchSize: 100, weights, ...seed !== undefined && { seed } };
    const loader = new DataLoader(dataset, options), seen: number[] = [];
    let state = loader.stateDict();
    for await (const [x] of loader) {
      seen.push(...(await x!.toArray() as number[]));
      if (seen.length === 200) state = loader.stateDict();
    }
    assertEquals(seen.length, 400);
    assert(seen.every((k) => k >= 200));
    const often = seen.filter((k) => k < 300).length;
    assert(often > 260 && often < 340, `${often} of 400`);
    const resumed = new DataLoader(dataset, options), rest: number[] = [];
    resumed.loadStateDict(state);
    for await (const [x] of resumed) rest.push(...(await x!.toArray() as number[]));
    assertEquals(rest, seen.slice(200));
  }
  const make = (options: object) => () => new DataLoader(dataset, options);
  assertThrows(make({ weights: [1] }), RangeError, "400");
  assertThrows(make({ weights: weights.map(() => 0) }), RangeError, "zeros");
  assertThrows(make({ weights: weights.with(3, -1) }), RangeError, "-1");
  assertThrows(make({ weights, shuffle: true }), TypeError, "shuffle");
});
