/** Modules as functions of their parameters. */
import { assertEquals, assertThrows } from "@std/assert";
import { func, nn, ShapeError, Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

testOnBackends("functionalCall uses other parameters for one call", async () => {
  const model = new nn.Sequential(new nn.Linear(2, 1), new nn.ReLU()), x = Tensor.ones([1, 2]);
  const [weight] = model.parameters();
  const other = Tensor.fromHost([[3, 4]], { requiresGrad: true });
  const parameters = { "0.weight": other, "0.bias": Tensor.ones([1]) };
  const y = func.functionalCall(model, parameters, x);
  assertEquals(await y.item(), 8);
  y.sum().backward();
  assertEquals([await other.grad!.toArray(), weight!.grad], [[[1, 1]], null]);
  assertEquals(model.parameters()[0], weight);
  assertThrows(() => func.functionalCall(model, { weight: other }, x), RangeError, "0.weight");
  const call = (weight: Tensor, x: Tensor) => () =>
    func.functionalCall(model, { "0.weight": weight }, x);
  assertThrows(call(x.reshape([2]), x), ShapeError, "[1, 2]");
  assertThrows(call(other, Tensor.ones([1, 3])), ShapeError);
  assertEquals(model.parameters()[0], weight);
});

testOnBackends("functionalCall replaces a tied weight everywhere", async () => {
  const layers = [1, 2].map(() => new nn.Linear(1, 1, { bias: false }));
  layers[1]!.weight = layers[0]!.weight;
  const model = new nn.Sequential(...layers);
  const y = func.functionalCall(model, { "1.weight": Tensor.full([1, 1], 3) }, Tensor.ones([1, 1]));
  assertEquals(await y.item(), 9);
});

testOnBackends("functionalCall: gradients of each sample are those of batches of one", async () => {
  const features = [new nn.Conv2d(1, 2, 3), new nn.ReLU(), new nn.Flatten()];
  const model = new nn.Sequential(...features, new nn.Linear(8, 3));
  const images = Tensor.randn([3, 1, 4, 4]).realize();
  const labels = Tensor.fromHost(Int32Array.of(0, 2, 1));
  const parameters = Object.fromEntries(model.namedParameters());
  const loss = (parameters: Record<string, Tensor>, image: Tensor, label: Tensor) =>
    func.functionalCall(model, parameters, image.unsqueeze(0)).crossEntropy(label.unsqueeze(0));
  const each = func.vmap(func.grad(loss), { inAxes: [null, 0, 0] })(parameters, images, labels);
  for (const [name, gradients] of Object.entries(each)) {
    for (const k of [0, 1, 2]) {
      model.zeroGrad();
      model.forward(images.slice([k, k + 1])).crossEntropy(labels.slice([k, k + 1])).backward();
      const isClose = await gradients.slice(k).allClose(parameters[name]!.grad!, { atol: 1e-5 });
      assertEquals(isClose, true, name);
    }
  }
});
