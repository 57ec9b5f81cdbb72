// Finds the line that noisy points lie about, y = 3 x + 2: linear regression, to be copied.
import { manualSeed, nn, optim, Tensor } from "@netcl/netcl";

manualSeed(4);
const x = Tensor.rand([256, 1]).realize();
const y = x.mul(3).add(2).add(Tensor.randn([256, 1]).mul(0.1)).realize();

const line = new nn.Linear(1, 1);
const optimizer = new optim.SGD(line.parameters(), { lr: 0.5 });
for (let step = 1; step <= 100; step++) {
  using loss = nn.mse(line.forward(x), y);
  optimizer.zeroGrad();
  loss.backward();
  optimizer.step();
  if (step % 20 === 0) console.log(`step ${step}: loss ${(await loss.item()).toFixed(4)}`);
}
const slope = await line.weight.item(), offset = await line.forward(Tensor.zeros([1, 1])).item();
console.log(`y = ${slope.toFixed(2)} x + ${offset.toFixed(2)}`);
