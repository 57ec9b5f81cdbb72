import { assert, assertEquals, assertThrows } from "@std/assert";
import { DTypeError, grad, nn, ShapeError, Tensor } from "../../../mod.ts";
import { assertClose, Case, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";

testOnBackends("RMSNorm: values and gradients are PyTorch's", async (backend) => {
  const run = await fixture("sequence_parts", backend);
  const layers = {
    rms_norm: new nn.RMSNorm(6),
    rms_norm_axes: new nn.RMSNorm([5, 6], { eps: 0.01 }),
  };
  for (const [name, layer] of Object.entries(layers)) {
    const expected = new Case(run, name);
    layer.loadStateDict(expected.state);
    await expected.check(({ x }) => ({ output: layer.forward(x!) }), layer);
  }
  const plain = new nn.RMSNorm(6, { affine: false });
  await new Case(run, "rms_norm_tiny").check(({ x }) => ({ output: plain.forward(x!) }));
  assertEquals(plain.parameters(), []);
  const half = plain.forward(Tensor.full([2, 6], 300, { dtype: "float16" }));
  assertEquals([half.dtype, await half.slice(0, 0).item()], ["float16", 1]);
  assertEquals(plain.forward(Tensor.ones([0, 6])).shape, [0, 6]);
  assertThrows(() => plain.forward(Tensor.ones([2, 5])), ShapeError, "last axes must be [6]");
  assertThrows(() => plain.forward(Tensor.ones([6], { dtype: "int32" })), DTypeError, "int32");
});

testOnCPU("RMSNorm: second derivatives are those of its definition", async () => {
  const x = Tensor.randn([3, 4], { requiresGrad: true }).realize();
  const penalty = (y: Tensor): Tensor => {
    const [first] = grad([y.pow(3).sum()], [x], { createGraph: true });
    return grad([first!.square().sum()], [x])[0]!;
  };
  const eps = 0.1;
  const byHand = x.mul(x.square().mean(-1, { keepDims: true }).add(eps).rsqrt());
  const layer = new nn.RMSNorm(4, { eps });
  await assertClose(penalty(layer.forward(x)), penalty(byHand), 1e-5, "penalty");
});

testOnBackends("SwiGLU: values and gradients are PyTorch's", async (backend) => {
  const expected = new Case(await fixture("sequence_parts", backend), "swiglu");
  const layer = new nn.SwiGLU(6, 10);
  layer.loadStateDict(expected.state);
  await expected.check(({ x }) => ({ output: layer.forward(x!) }), layer);
});

testOnBackends("RotaryEmbedding's waves are those of doubles, also far out", async () => {
  const rotary = new nn.RotaryEmbedding(128), start = 100_000, half = 64;
  const x = Tensor.concat([Tensor.ones([1, half]), Tensor.zeros([1, half])], 1);
  const turned = await rotary.forward(x, start).toNumbers();
  for (let k = 0; k < half; k++) {
    const angle = start * Math.fround(10_000 ** (-k / half));
    // The product is rounded to float32: half a unit in the last place.
    const room = angle * 2 ** -24 + 1e-6;
    assert(Math.abs(turned[k]! - Math.cos(angle)) < room, `cos of pair ${k}`);
    assert(Math.abs(turned[half + k]! - Math.sin(angle)) < room, `sin of pair ${k}`);
  }
});

testOnBackends("RotaryEmbedding rotates as complex numbers do", async (backend) => {
  const run = await fixture("sequence_parts", backend);
  const halves = new nn.RotaryEmbedding(6);
  await new Case(run, "rotary").check(({ x }) => ({ output: halves.forward(x!) }));
  const pairs = new nn.RotaryEmbedding(6, { base: 500, interleaved: true });
  const start = Tensor.fromHost(Int32Array.of(7));
  for (const first of [7, start, start.squeeze(), Tensor.arange(7, 12, 1, { dtype: "int32" })]) {
    await new Case(run, "rotary_pairs").check(({ x }) => ({ output: pairs.forward(x!, first) }));
  }
  assertEquals(halves.forward(Tensor.ones([2, 6], { dtype: "float16" })).dtype, "float16");
  assertThrows(() => new nn.RotaryEmbedding(5), RangeError, "even");
  assertThrows(() => halves.forward(Tensor.ones([2, 4])), ShapeError, "(..., L, 6)");
  assertThrows(() => halves.forward(Tensor.ones([2, 6]), Tensor.ones([1])), DTypeError);
  const three = Tensor.arange(0, 3, 1, { dtype: "int32" });
  assertThrows(() => halves.forward(Tensor.ones([2, 6]), three), ShapeError, "[3]");
});
