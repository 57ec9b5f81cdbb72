import { assert, assertEquals, assertRejects } from "@std/assert";
import { manualSeed, nn, noGrad, Tensor } from "../../../../../mod.ts";
import { loadOnnx, saveOnnx } from "@netcl/netcl/models";
import { testOnBackends, testOnCPU } from "../../../../opencl.ts";
import { inFolder } from "../../../../temporary_folder.ts";

/** Saves a module, loads it, and compares what both give, also for inputs of other lengths. */
function assertSame(
  model: nn.AnyModule,
  inputs: Record<string, Tensor>,
  dynamic: Record<string, (string | null)[]> = {},
  others: Record<string, Tensor> = inputs,
): Promise<void> {
  return inFolder(async (folder) => {
    const path = `${folder}/model.onnx`;
    await saveOnnx(path, model, inputs, { dynamic });
    const back = await loadOnnx(path), wasLearning = model.training;
    model.eval();
    for (const given of [inputs, others]) {
      const wanted = noGrad(() => model.forward(...Object.values(given))) as Tensor;
      const { output } = noGrad(() => back.run(given));
      assertEquals(output!.shape, wanted.shape);
      assert(await output!.allClose(wanted, { rtol: 1e-4, atol: 1e-5 }));
    }
    model.train(wasLearning);
  });
}

class Classifier extends nn.Module {
  words = new nn.Embedding(20, 16);
  block = new nn.TransformerEncoderLayer(16, 2, { dimFeedforward: 32 });
  head = new nn.Linear(16, 3);
  forward(ids: Tensor): Tensor {
    return this.head.forward(this.block.forward(this.words.forward(ids)).mean(1));
  }
}

testOnBackends("saveOnnx writes convolutions, norms and pooling for any batch", () => {
  manualSeed(1);
  const model = new nn.Sequential(
    new nn.Conv2d(3, 8, 3, { padding: 1, stride: 2 }),
    new nn.BatchNorm2d(8),
    new nn.SiLU(),
    new nn.MaxPool2d(2),
    new nn.GroupNorm(2, 8),
    new nn.ConvTranspose2d(8, 4, 2, { stride: 2 }),
    new nn.Upsample({ scaleFactor: 2, mode: "bilinear" }),
    new nn.Flatten(),
    new nn.Dropout(0.5),
  );
  const image = Tensor.randn([2, 3, 8, 8]);
  return assertSame(model, { image }, { image: ["n"] }, { image: Tensor.randn([5, 3, 8, 8]) });
});

testOnBackends("saveOnnx writes attention for any batch and length", () => {
  manualSeed(2);
  const ids = (n: number, length: number) => Tensor.randint(0, 20, [n, length]).cast("int64");
  const dynamic = { ids: ["batch", "length"] };
  return assertSame(new Classifier(), { ids: ids(2, 6) }, dynamic, { ids: ids(3, 4) });
});

testOnCPU("saveOnnx leaves the module as it was, and names what has no form in ONNX", async () => {
  const model = new nn.Sequential(new nn.Linear(2, 2), new nn.Dropout(0.5)),
    x = Tensor.ones([1, 2]);
  await assertSame(model, { x });
  assert(model.modules().every(({ training }) => training));
  class Odd extends nn.Module {
    forward(x: Tensor): Tensor {
      return x.add(1).cast("int32").bitwiseAnd(1);
    }
  }
  await assertRejects(() => saveOnnx("never.onnx", new Odd(), { x }), TypeError, "not written");
  await assertRejects(
    () => saveOnnx("never.onnx", model, { x }, { dynamic: { y: ["n"] } }),
    RangeError,
    'axes of "y"',
  );
  class Reading extends nn.Module {
    forward(x: Tensor): Tensor {
      return x.mul(x.sum().itemSync());
    }
  }
  await assertRejects(
    () => saveOnnx("never.onnx", new Reading(), { x }),
    TypeError,
    "reads a value",
  );
});
