import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { manualSeed, nn, ShapeError, type Tensor } from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";

async function moments(tensor: Tensor): Promise<{ mean: number; deviation: number; most: number }> {
  const values = [...await tensor.toHost()].map(Number);
  const mean = values.reduce((a, b) => a + b) / values.length;
  const square = values.reduce((a, b) => a + (b - mean) ** 2, 0) / values.length;
  return { mean, deviation: Math.sqrt(square), most: Math.max(...values.map(Math.abs)) };
}

testOnBackends("initial values have the spread that their names promise", async () => {
  manualSeed(0);
  const shape = [64, 32, 3, 3], fanIn = 32 * 9, fanOut = 64 * 9;
  const relu = Math.SQRT2;
  const cases: [string, Tensor, number, boolean][] = [
    ["kaimingNormal", nn.init.kaimingNormal(shape), relu / Math.sqrt(fanIn), false],
    [
      "kaimingUniform fanOut",
      nn.init.kaimingUniform(shape, { mode: "fanOut", nonlinearity: "relu" }),
      relu / Math.sqrt(fanOut),
      true,
    ],
    ["xavierUniform", nn.init.xavierUniform(shape), Math.sqrt(2 / (fanIn + fanOut)), true],
    [
      "xavierNormal",
      nn.init.xavierNormal(shape, { gain: nn.init.gain("tanh") }),
      5 / 3 * Math.sqrt(2 / (fanIn + fanOut)),
      false,
    ],
    ["normal", nn.init.normal(shape, { std: 0.02 }), 0.02, false],
    ["uniform", nn.init.uniform(shape, { low: -0.5, high: 0.5 }), 1 / Math.sqrt(12), true],
  ];
  for (const [name, tensor, expected, bounded] of cases) {
    const { mean, deviation, most } = await moments(tensor);
    assertAlmostEquals(mean / expected, 0, 0.03);
    assertAlmostEquals(deviation / expected, 1, 0.03);
    assertEquals(most <= expected * Math.sqrt(3) * 1.0001, bounded, name);
  }
});

testOnBackends("layers begin as PyTorch's do: within 1 / sqrt(fanIn)", async () => {
  manualSeed(1);
  const linear = new nn.Linear(100, 80), conv = new nn.Conv2d(8, 16, 5);
  for (const [layer, fanIn] of [[linear, 100], [conv, 200]] as const) {
    for (const tensor of [layer.weight, layer.bias!]) {
      const { most } = await moments(tensor), bound = 1 / Math.sqrt(fanIn);
      assert(most <= bound && most > 0.8 * bound, `${most} of ${bound}`);
    }
  }
  const embedding = await moments(new nn.Embedding(200, 50).weight);
  assertAlmostEquals(embedding.deviation, 1, 0.03);
});

Deno.test("fans need two axes", () => {
  assertEquals(nn.init.fans([4, 3, 2, 2]), { fanIn: 12, fanOut: 16 });
  assertThrows(() => nn.init.fans([4]), ShapeError, "[4]");
});
