/** Anomaly detection names what made a gradient NaN, and where it was called. */
import { assertEquals, assertMatch, assertStringIncludes, assertThrows } from "@std/assert";
import {
  AnomalyError,
  compile,
  detectAnomaly,
  grad,
  isAnomalyEnabled,
  nn,
  setDetectAnomaly,
  Tensor,
} from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

/** The line that an error should lead to. */
function suspiciousRoot(x: Tensor): Tensor {
  return x.sqrt();
}

function anomalyOf(fn: () => void): AnomalyError {
  return assertThrows(() => detectAnomaly(fn), AnomalyError);
}

testOnBackends("the error names the operation and the function that called it", () => {
  const x = Tensor.fromHost([0, 4], { requiresGrad: true });
  const error = anomalyOf(() => suspiciousRoot(x).mul(0).sum().backward());
  assertEquals(error.operation, "sqrt");
  assertStringIncludes(error.message, "NaN in 1 of 2 elements");
  assertMatch(error.message, /at suspiciousRoot \((file:|\/)/);
  assertStringIncludes(error.message, "0 * Infinity");
  // The operation's own calls are left out: the first line is the user's.
  assertMatch(error.message, /sqrt was called\n\s+at suspiciousRoot/);
  assertEquals(x.grad, null);
});

testOnBackends("a NaN of the forward pass is traced to where it began", () => {
  const x = Tensor.fromHost([-1, 4], { requiresGrad: true });
  const error = anomalyOf(() => suspiciousRoot(x.mul(2)).exp().sum().backward());
  assertEquals(error.operation, "exp");
  assertStringIncludes(error.message, "the first NaN was the value of sqrt; sqrt was called");
  assertMatch(error.message, /at suspiciousRoot \((file:|\/)/);
});

testOnBackends("NaN in the data is told from NaN that was computed", () => {
  const x = Tensor.fromHost([[1, NaN]]);
  const w = Tensor.ones([2, 1], { requiresGrad: true });
  const error = anomalyOf(() => x.matmul(w).sum().backward());
  assertEquals(error.operation, "matmul");
  assertStringIncludes(error.message, "a tensor of shape [1, 2] that it started from is NaN");
});

testOnBackends("a NaN of the forward pass that no gradient sees is none", async () => {
  const x = Tensor.fromHost([-1, 4], { requiresGrad: true });
  detectAnomaly(() => x.sqrt().detach().add(x).sum().backward());
  assertEquals(await x.grad!.toArray(), [1, 1]);
});

testOnBackends("infinities that cancel are found where they meet", () => {
  const x = Tensor.fromHost([1], { requiresGrad: true });
  const error = anomalyOf(() => {
    const y = x.mul(1);
    y.mul(Infinity).add(y.mul(-Infinity)).sum().backward(undefined, {});
  });
  assertEquals(error.operation, "mul");
  assertStringIncludes(error.message, "gradients that meet at its result");
});

testOnBackends("a gradient of NaN given to backward is said to be that", () => {
  const x = Tensor.ones([2], { requiresGrad: true });
  const error = anomalyOf(() => x.mul(2).backward(Tensor.fromHost([1, NaN])));
  assertEquals(error.operation, null);
  assertStringIncludes(error.message, "the gradient that backward starts from");
});

testOnBackends("the gradients are those of a run without", async () => {
  const layer = new nn.Sequential(new nn.Linear(4, 8), new nn.GELU(), new nn.Linear(8, 1));
  const x = Tensor.randn([5, 4]).realize();
  const gradients = async (): Promise<unknown> => {
    for (const p of layer.parameters()) p.grad = null;
    layer.forward(x).square().mean().backward();
    return await Promise.all(layer.parameters().map((p) => p.grad!.toArray()));
  };
  const plain = await gradients();
  assertEquals(await detectAnomaly(gradients), plain);
});

testOnBackends("grad and second derivatives are watched too", () => {
  const x = Tensor.fromHost([0], { requiresGrad: true });
  const error = anomalyOf(() => {
    // The first derivative, 1.5 * sqrt(x), is 0 at 0; the second is not finite.
    const [first] = grad([x.sqrt().mul(x).mul(0)], [x], { createGraph: true });
    return first;
  });
  assertEquals(error.operation, "sqrt");
  const second = anomalyOf(() => {
    const [first] = grad([x.pow(1.25)], [x], { createGraph: true });
    grad([first!.mul(0)], [x]);
  });
  assertEquals(second.operation, "pow");
});

testOnBackends("a layer's operation leads to the layer and to its caller", () => {
  class Broken extends nn.Module {
    override forward(x: Tensor): Tensor {
      return x.mul(0).sqrt().mul(0);
    }
  }
  const model = new nn.Sequential(new nn.Linear(2, 2), new Broken());
  const error = anomalyOf(() => model.forward(Tensor.ones([1, 2])).sum().backward());
  assertStringIncludes(error.message, "at Broken.forward");
  assertStringIncludes(error.message, "at Sequential.forward");
});

testOnBackends("without the forward pass in it the error says what to do", () => {
  const loss = Tensor.fromHost([0], { requiresGrad: true }).sqrt().mul(0).sum();
  const error = anomalyOf(() => loss.backward());
  assertStringIncludes(error.message, "run the forward pass in detectAnomaly too");
});

testOnBackends("a compiled step runs as it is written", () => {
  const x = Tensor.fromHost([1, 4], { requiresGrad: true });
  const step = compile((scale: Tensor) => {
    x.grad = null;
    x.sub(1).sqrt().mul(scale).sum().backward();
    return x.grad!;
  });
  const zero = Tensor.zeros([1]).realize();
  for (let k = 0; k < 3; k++) step(zero);
  assertEquals(anomalyOf(() => step(zero)).operation, "sqrt");
  step(zero);
});

Deno.test("the switch is for all, the scope for one task", async () => {
  assertEquals(isAnomalyEnabled(), false);
  setDetectAnomaly(true);
  try {
    assertEquals(isAnomalyEnabled(), true);
    const x = Tensor.fromHost([0], { requiresGrad: true, device: "cpu" });
    assertThrows(() => x.sqrt().mul(0).sum().backward(), AnomalyError, "sqrt");
  } finally {
    setDetectAnomaly(false);
  }
  const inside = detectAnomaly(async () => {
    await Promise.resolve();
    return isAnomalyEnabled();
  });
  assertEquals(isAnomalyEnabled(), false);
  assertEquals(await inside, true);
});
