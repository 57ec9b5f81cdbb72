import { assert, assertEquals, assertThrows } from "@std/assert";
import { nn, ShapeError, Tensor } from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";

// The functions themselves are held against PyTorch in tests/conformance.
testOnBackends("modules of activations are their functions, and refuse no number", async () => {
  const x = Tensor.linspace(-4, 8, 12).reshape([3, 4]);
  const pairs: [nn.Module, Tensor][] = [
    [new nn.ReLU(), x.relu()],
    [new nn.LeakyReLU(0.1), x.leakyRelu(0.1)],
    [new nn.ELU(2), x.elu(2)],
    [new nn.SiLU(), x.silu()],
    [new nn.Softplus(), x.softplus()],
    [new nn.Tanh(), x.tanh()],
    [new nn.Sigmoid(), x.sigmoid()],
    [new nn.GELU("tanh"), x.gelu("tanh")],
    [new nn.Identity(), x],
    [new nn.CELU(0.5), nn.celu(x, 0.5)],
    [new nn.SELU(), nn.selu(x)],
    [new nn.GLU(), nn.glu(x)],
    [new nn.Hardtanh(-2, 3), nn.hardtanh(x, -2, 3)],
    [new nn.ReLU6(), x.clamp(0, 6)],
    [new nn.Hardshrink(), nn.hardshrink(x)],
    [new nn.Softshrink(1), nn.softshrink(x, 1)],
    [new nn.Softsign(), nn.softsign(x)],
    [new nn.Tanhshrink(), nn.tanhshrink(x)],
    [new nn.Threshold(1, -1), nn.threshold(x, 1, -1)],
  ];
  for (const [module, expected] of pairs) {
    assert(await module.forward(x).equal(expected), module.constructor.name);
  }
  assertEquals(new nn.GLU(0).forward(Tensor.ones([6, 2])).shape, [3, 2]);
  assertThrows(() => nn.glu(Tensor.ones([3])), ShapeError, "even");
  assertThrows(() => new nn.CELU(NaN), RangeError, "NaN");
});
