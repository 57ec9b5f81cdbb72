import { assertEquals, assertThrows } from "@std/assert";
import { nn, Tensor } from "../../../mod.ts";
import { assertClose, Case, fixture } from "../../fixtures/pytorch.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";

const small = { dimFeedforward: 12, dropout: 0 };
const gelu = { ...small, normFirst: true, activation: "gelu" } as const;

testOnBackends("TransformerEncoderLayer: outputs and gradients are PyTorch's", async (backend) => {
  const run = await fixture("transformer_layers", backend);
  const cases = { encoder: small, encoder_first: { ...gelu, batchFirst: true } };
  for (const [name, options] of Object.entries(cases)) {
    const expected = new Case(run, name);
    const layer = new nn.TransformerEncoderLayer(8, 2, options);
    layer.loadStateDict(expected.state);
    const masks = { isCausal: true, keyPaddingMask: run["masks.padding"]! };
    await expected.check(({ x }) => ({ output: layer.forward(x!, masks) }), layer, 1e-5);
  }
});

testOnBackends("TransformerDecoderLayer: outputs and gradients are PyTorch's", async (backend) => {
  const run = await fixture("transformer_layers", backend);
  const cases = { decoder: small, decoder_first: { ...gelu, layerNormEps: 1e-3 } };
  for (const [name, options] of Object.entries(cases)) {
    const expected = new Case(run, name);
    const layer = new nn.TransformerDecoderLayer(8, 2, options);
    layer.loadStateDict(expected.state);
    const masks = {
      isCausal: true,
      memoryMask: expected.get("memory_mask"),
      memoryKeyPaddingMask: expected.get("memory_padding"),
    };
    const call = ({ x, memory }: Record<string, Tensor>) => ({
      output: layer.forward(x!, memory!, masks),
    });
    await expected.check(call, layer, 1e-5);
  }
});

testOnCPU("TransformerEncoder and TransformerDecoder have PyTorch's names", async () => {
  const makeEncoder = () => new nn.TransformerEncoderLayer(8, 2, small);
  const encoder = new nn.TransformerEncoder(makeEncoder, 2, new nn.LayerNorm(8));
  const decoder = new nn.TransformerDecoder(() => new nn.TransformerDecoderLayer(8, 2, small), 2);
  const x = Tensor.randn([5, 3, 8]).realize(), causal = { isCausal: true };
  const memory = encoder.forward(x, causal), y = decoder.forward(x, memory, causal);
  const [first, second] = encoder.layers;
  const inTurn = second!.forward(first!.forward(x, causal), causal);
  await assertClose(memory, encoder.norm!.forward(inTurn), 1e-6, "encoder");
  const [lower, upper] = decoder.layers;
  const told = upper!.forward(lower!.forward(x, memory, causal), memory, causal);
  await assertClose(y, told, 1e-6, "decoder");
  const names = Object.keys(encoder.stateDict());
  assertEquals(names.includes("layers.1.self_attn.in_proj_weight"), true);
  assertEquals(names.at(-1), "norm.bias");
  assertThrows(() => new nn.TransformerEncoder(() => first!, 0), RangeError, "count");
});

testOnBackends("transformer layers: batchFirst, no batch, dropout in training only", async () => {
  const layer = new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 12, batchFirst: true });
  const other = new nn.TransformerEncoderLayer(8, 2, { dimFeedforward: 12 });
  other.loadStateDict(layer.stateDict());
  const x = Tensor.randn([3, 5, 8]).realize();
  const trained = await layer.forward(x).toHost();
  const output = layer.eval().forward(x);
  assertEquals(trained.some((v, k) => v === 0 && k > 0), false);
  await assertClose(other.eval().forward(x.transpose(0, 1)).transpose(0, 1), output, 1e-6, "order");
  await assertClose(layer.forward(x.slice(1)), output.slice(1), 1e-6, "one sequence");
  assertThrows(() => new nn.TransformerEncoderLayer(9, 2), RangeError, "9 features");
  const unknown = { heads: 2 } as never;
  assertThrows(() => new nn.TransformerDecoderLayer(8, 2, unknown), TypeError, '"heads"');
});
