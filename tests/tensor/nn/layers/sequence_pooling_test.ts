/** Pooling of sequences and volumes beside loops over windows; small layers beside what they are made of. */
import { assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { nn, ShapeError, Tensor } from "../../../../mod.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";

/** Elements that a window along one axis reads, by loops: of places beyond the ends null. */
function windowsOf(n: number, kernel: number, stride: number, padding: number, dilation: number) {
  const count = Math.floor((n + 2 * padding - dilation * (kernel - 1) - 1) / stride) + 1;
  return Array.from({ length: count }, (_, k) =>
    Array.from({ length: kernel }, (_, tap) => {
      const at = k * stride - padding + tap * dilation;
      return at < 0 || at >= n ? null : at;
    }));
}

const sides = [5, 4, 6], numbers = Array.from({ length: 2 * 5 * 4 * 6 }, (_, k) => Math.sin(7 * k));

/** All windows of a volume of two channels, each as its elements, null for padding. */
function boxes(kernel: number[], stride: number[], padding: number[], dilation: number[]) {
  const [depths, heights, widths] = sides.map((n, k) =>
    windowsOf(n, kernel[k]!, stride[k]!, padding[k]!, dilation[k]!)
  ) as [(number | null)[][], (number | null)[][], (number | null)[][]];
  return [0, 1].flatMap((c) =>
    depths.flatMap((ds) =>
      heights.flatMap((hs) =>
        widths.map((ws) =>
          ds.flatMap((d) =>
            hs.flatMap((h) =>
              ws.map((w) =>
                d === null || h === null || w === null
                  ? null
                  : numbers[((c * 5 + d) * 4 + h) * 6 + w]!
              )
            )
          )
        )
      )
    )
  );
}

const mean = (values: number[], count: number) => values.reduce((a, b) => a + b, 0) / count;

testOnBackends("MaxPool3d and AvgPool3d have the values of loops over windows", () => {
  const x = Tensor.fromHost(numbers).reshape([1, 2, ...sides]);
  const [kernel, stride, padding] = [[3, 2, 2], [2, 1, 3], [1, 1, 0]], dilation = [1, 2, 1];
  const largest = new nn.MaxPool3d(kernel, { stride, padding, dilation }).forward(x).toHostSync();
  const windows = boxes(kernel, stride, padding, dilation);
  assertEquals(
    [...largest],
    windows.map((box) => Math.fround(Math.max(...box.filter((v) => v !== null)))),
  );
  for (const countIncludePad of [true, false]) {
    const pool = new nn.AvgPool3d(kernel, { stride, padding, countIncludePad });
    const found = pool.forward(x).toHostSync("float32");
    boxes(kernel, stride, padding, [1, 1, 1]).forEach((box, k) => {
      const there = box.filter((v) => v !== null);
      const expected = mean(there, countIncludePad ? box.length : there.length);
      assertAlmostEquals(found[k]!, expected, 1e-6);
    });
  }
});

testOnBackends("MaxPool1d and AvgPool1d pool sequences, with gradients", async () => {
  const x = Tensor.fromHost([[[1, 5, 2, 4, 3]]], { requiresGrad: true });
  const y = new nn.MaxPool1d(3, { stride: 2, padding: 1 }).forward(x);
  assertEquals(await y.toArray(), [[[5, 5, 4]]]);
  y.sum().backward();
  assertEquals(await x.grad!.toArray(), [[[0, 2, 0, 1, 0]]]);
  assertEquals(await new nn.AvgPool1d(2).forward(x).toArray(), [[[3, 3]]]);
});

testOnBackends("BatchNorm3d, LogSoftmax and Unflatten are what their kin are", async () => {
  const x = Tensor.fromHost(numbers).reshape([2, 4, 5, 3, 2]);
  const [volumes, images] = [new nn.BatchNorm3d(4), new nn.BatchNorm2d(4)];
  const flat = images.forward(x.reshape([2, 4, 15, 2])).reshape(x.shape);
  assertEquals(await volumes.forward(x).allClose(flat, { atol: 1e-6 }), true);
  assertEquals(Object.keys(volumes.stateDict()), Object.keys(images.stateDict()));
  assertThrows(() => volumes.forward(x.reshape([2, 4, 15, 2])), ShapeError);
  const logs = new nn.LogSoftmax(1).forward(x);
  assertEquals(await logs.exp().allClose(new nn.Softmax(1).forward(x), { atol: 1e-6 }), true);
  assertEquals(new nn.Unflatten(1, [2, -1]).forward(x).shape, [2, 2, 2, 5, 3, 2]);
  assertEquals(new nn.Unflatten(-1, [2, 1]).forward(x).shape, [2, 4, 5, 3, 2, 1]);
});

testOnCPU("layers that pool refuse what does not fit, by name", () => {
  const x = Tensor.ones([1, 2, 3]);
  assertThrows(() => new nn.MaxPool3d(2).forward(x), ShapeError, "[N, C, D, H, W]");
  assertThrows(() => new nn.MaxPool1d(4).forward(x), ShapeError, "window");
  assertThrows(() => new nn.AvgPool1d([2, 2]), Error, "kernel");
  assertThrows(() => new nn.Unflatten(1, [3, 5]).forward(x), ShapeError);
  assertThrows(() => new nn.Unflatten(4, [1]).forward(x), ShapeError, "axis 4");
  assertThrows(() => new nn.LogSoftmax(0.5), RangeError, "axis");
});
