// Finds the line that noisy points lie about: linear regression in 20 lines.
import { nn, optim, Tensor } from "@netcl/netcl";
import { optionsWith } from "./flags.ts";
import { runExample } from "./run_example.ts";

const about = "Finds the line that noisy points lie about; it is y = 3 x + 2.";
const file = "examples/linear_regression.ts", flags = optionsWith({ steps: "200" });
await runExample({ about, file, flags }, async ({ steps }, print) => {
  const x = Tensor.rand([256, 1]).realize();
  const y = x.mul(3).add(2).add(Tensor.randn([256, 1]).mul(0.1)).realize();
  const line = new nn.Linear(1, 1), optimizer = new optim.SGD(line.parameters(), { lr: 0.5 });
  for (let step = 1; step <= Number(steps); step++) {
    using loss = nn.mse(line.forward(x), y);
    optimizer.zeroGrad(), loss.backward(), optimizer.step();
    if (step % 20 === 0) print(`step ${step}: loss ${(await loss.item()).toFixed(4)}`);
  }
  const [slope, offset] = [await line.weight.item(), await line.bias!.item()];
  print(`y = ${slope.toFixed(2)} x + ${offset.toFixed(2)}`);
});
