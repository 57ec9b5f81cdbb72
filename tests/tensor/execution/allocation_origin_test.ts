import { assert, assertEquals } from "@std/assert";
import { memory, nn, optim, Tensor } from "@netcl/netcl";
import { testOnBackends } from "../../opencl.ts";

testOnBackends("what a training step allocates is charged to the user's lines", async () => {
  const options = { dimFeedforward: 32, dropout: 0 };
  const model = new nn.TransformerEncoderLayer(16, 2, options);
  const optimizer = new optim.AdamW(model.parameters());
  using recording = memory.record({ stacks: true });
  const loss = model.forward(Tensor.randn([2, 5, 16])).square().mean();
  loss.backward();
  optimizer.step();
  await loss.item();
  // What lived before the recording has no frames.
  const frames = recording.events().flatMap((event) => event.frames ? [event.frames] : []);
  assert(frames.length > 10);
  // Bun names a file by its path.
  const files = frames.map(([user]) => new URL(user!.filename, import.meta.url).href);
  assertEquals([...new Set(files)], [import.meta.url]);
});
