/** Layers on images, against PyTorch: state, values and gradients. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { amp, grad, manualSeed, nn, optim, ShapeError, Tensor } from "../../../mod.ts";
import { assertClose, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import { learn } from "../training.ts";

const offsets = () => Tensor.fromHost(Int32Array.of(0, 2, 2));
const up = { stride: 2, padding: 1 };

/** The layers of `fixtures/pytorch/layers.py`. */
const layers: Readonly<Record<string, () => nn.AnyModule>> = {
  conv1d: () => new nn.Conv1d(4, 6, 3, { ...up, groups: 2 }),
  conv3d: () => new nn.Conv3d(2, 3, [2, 3, 1], { padding: [1, 0, 1] }),
  conv_transpose1d: () => new nn.ConvTranspose1d(4, 2, 4, up),
  conv_transpose2d: () => new nn.ConvTranspose2d(4, 6, 3, { ...up, outputPadding: 1, groups: 2 }),
  conv_transpose3d: () => new nn.ConvTranspose3d(2, 2, 2, { stride: 2, bias: false }),
  group_norm: () => new nn.GroupNorm(2, 4, { eps: 1e-3 }),
  group_norm_features: () => new nn.GroupNorm(2, 4),
  instance_norm: () => new nn.InstanceNorm2d(4),
  instance_norm_affine: () => new nn.InstanceNorm1d(4, { affine: true }),
  upsample: () => new nn.Upsample({ scaleFactor: 2, mode: "bilinear", alignCorners: true }),
  upsample_down: () => new nn.Upsample({ size: [3, 4], mode: "bilinear" }),
  pixel_shuffle: () => new nn.PixelShuffle(2),
  zero_pad: () => new nn.ZeroPad2d([1, 2, 0, 3]),
  constant_pad: () => new nn.ConstantPad1d([2, 1], 1.5),
  reflection_pad: () => new nn.ReflectionPad2d([2, 1, 0, 3]),
  replication_pad: () => new nn.ReplicationPad3d([1, 2, 0, 1, 2, 0]),
  prelu: () => new nn.PReLU(4),
  ...Object.fromEntries(
    (["sum", "mean", "max"] as const).flatMap((mode) =>
      ["bag", "bag_offsets"].map((name) => [
        `${name}_${mode}`,
        () => new nn.EmbeddingBag(6, 3, { mode }),
      ])
    ),
  ),
};

/** The tensors of a fixture whose names begin with a prefix, without it; perhaps none. */
function under(run: Record<string, Tensor>, prefix: string): Record<string, Tensor> {
  const found = Object.entries(run).filter(([name]) => name.startsWith(prefix));
  return Object.fromEntries(found.map(([name, value]) => [name.slice(prefix.length), value]));
}

for (const [name, make] of Object.entries(layers)) {
  testOnBackends(`the layer ${name} is PyTorch's: state, value, gradients`, async (backend) => {
    const all = under(await fixture("layers", backend), `${name}.`);
    const layer = make();
    const given = name.startsWith("bag_offsets") ? [{ offsets: offsets() }] : [];
    layer.loadStateDict(under(all, "state."));
    const input = all.input!.detach();
    if (all.gradient) input.requiresGrad = true;
    const output = (layer as nn.Module<[x: Tensor, options?: unknown]>).forward(input, ...given);
    await assertClose(output, all.output!, 1e-5, "output");
    output.mul(all.cotangent!).sum().backward();
    if (all.gradient) await assertClose(input.grad!, all.gradient, 1e-5, "gradient");
    const expected = under(all, "gradient.");
    assertEquals(layer.namedParameters().map(([key]) => key).sort(), Object.keys(expected).sort());
    for (const [key, parameter] of layer.namedParameters()) {
      await assertClose(parameter.grad!, expected[key]!, 1e-5, `gradient of ${key}`);
    }
  });
}

testOnBackends("a small U-Net learns", async () => {
  manualSeed(3);
  class UNet extends nn.Module {
    down = new nn.Conv2d(2, 4, 3, { stride: 2, padding: 1 });
    norm = new nn.GroupNorm(2, 4);
    up = new nn.ConvTranspose2d(4, 2, 2, { stride: 2 });
    out = new nn.Conv2d(4, 2, 1);
    forward(x: Tensor): Tensor {
      const inner = this.up.forward(this.norm.forward(this.down.forward(x)).silu());
      return this.out.forward(Tensor.concat([inner, x], 1));
    }
  }
  const model = new UNet(), x = Tensor.randn([2, 2, 6, 6]).realize(), y = x.tanh().realize();
  const adam = new optim.Adam(model.parameters(), { lr: 2e-2 });
  const losses: number[] = [];
  for (let k = 0; k < 30; k++) {
    const loss = learn(adam, () => nn.mse(model.forward(x), y));
    losses.push(await loss.item());
  }
  assert(losses.at(-1)! < 0.3 * losses[0]!, `${losses[0]} to ${losses.at(-1)}`);
  const half = amp.autocast("bfloat16", () => model.up.forward(model.down.forward(x)));
  assertEquals(half.dtype, "bfloat16");
});

testOnBackends("Dropout2d drops whole channels, while training", async () => {
  manualSeed(6);
  const layer = new nn.Dropout2d(0.5), x = Tensor.ones([20, 10, 2, 3]);
  const channels = await layer.forward(x).mean([2, 3]).toHost("float32");
  assertEquals(new Set(channels), new Set([0, 2]));
  assertEquals(await layer.eval().forward(x).toHost(), await x.toHost());
  assertThrows(() => layer.forward(Tensor.ones([2, 3])), ShapeError, "4 axes");
});

testOnCPU("layers on images name what does not fit", () => {
  const x = Tensor.ones([1, 3, 4, 4]);
  assertEquals(
    assertThrows(() => x.convTranspose2d(Tensor.ones([2, 3, 2, 2])), ShapeError).message,
    "Cannot compute convTranspose2d of a tensor of shape [1, 3, 4, 4] with a weight of shape [2, 3, 2, 2]: " +
      "3 channels do not fit a weight of 2 in 1 group(s)",
  );
  const reach = () => x.convTranspose2d(Tensor.ones([3, 1, 2, 2]), { outputPadding: 1 });
  assertThrows(reach, ShapeError, "less than the stride");
  assertThrows(() => x.conv1d(Tensor.ones([1, 1, 1])), ShapeError, "[N, C, W]");
  assertThrows(() => new nn.GroupNorm(2, 3), RangeError, "divide");
  assertThrows(() => new nn.GroupNorm(3, 6).forward(x), ShapeError, "6 channels");
  assertThrows(() => new nn.InstanceNorm2d(3).forward(Tensor.ones([1, 3, 1, 1])), ShapeError);
  assertThrows(() => new nn.Upsample({}), TypeError, "pass one of them");
  assertThrows(() => x.interpolate({ size: 2, alignCorners: true }), TypeError, "bilinear");
  assertThrows(() => x.interpolate({ size: [2], mode: "bilinear", scaleFactor: 1 }), TypeError);
  assertThrows(() => x.pixelShuffle(2), ShapeError, "C * 4");
  assertThrows(() => x.padReflect([[0, 4]]), ShapeError, "less than their lengths");
  const words = Tensor.zeros([3], { dtype: "int32" });
  assertThrows(() => new nn.EmbeddingBag(4, 2).forward(words), ShapeError, "offsets");
});

testOnBackends("a pixel that is infinite or NaN reaches those that it has a share in", async () => {
  const row = (values: number[]) => Tensor.fromHost([[[values]]], { requiresGrad: true });
  for (const odd of [NaN, Infinity, -Infinity]) {
    const x = row([1, odd, 3]), y = x.interpolate({ size: [1, 6], mode: "bilinear" });
    // The first is PyTorch's: one time the first pixel, and 0 times the second.
    assertEquals(await y.flatten().toArray(), [NaN, odd, odd, odd, odd, 3]);
    const end = row([1, odd]).interpolate({ size: [1, 4], mode: "bilinear" });
    assertEquals(await end.flatten().toArray(), [NaN, odd, odd, odd]);
    const [back] = grad([y], [x], { gradients: [row([1, 1, 1, 1, 1, odd])] });
    assertEquals(await back!.flatten().toArray(), [2, 2, odd]);
  }
});

testOnBackends("padding of negative widths cuts off, whatever fills the other sides", async () => {
  const x = Tensor.arange(8).reshape([1, 2, 4]);
  const rows = (layer: nn.Module): Promise<unknown> => layer.forward(x).squeeze(0).toArray();
  assertEquals(await rows(new nn.ZeroPad1d([-1, 1])), [[1, 2, 3, 0], [5, 6, 7, 0]]);
  assertEquals(await rows(new nn.ConstantPad1d(-1, 9)), [[1, 2], [5, 6]]);
  assertEquals(await rows(new nn.ReflectionPad1d([2, -3])), [[2, 1, 0], [6, 5, 4]]);
  assertEquals(await rows(new nn.ReplicationPad1d([-2, 1])), [[2, 3, 3], [6, 7, 7]]);
  const image = Tensor.ones([1, 1, 3, 3]);
  assertEquals(new nn.ZeroPad2d([-1, 0, 2, -2]).forward(image).shape, [1, 1, 3, 2]);
  assertThrows(() => new nn.ZeroPad2d(-2).forward(image), ShapeError, "cut off");
  assertThrows(() => new nn.ZeroPad2d(0.5), RangeError, "a whole number, or an array of 4");
});
