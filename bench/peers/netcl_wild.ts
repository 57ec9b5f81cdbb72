/** The models of wild_models.ts as works: large ones on a GPU, small ones on a processor. */
import { compile, grad, nn, noGrad, optim, realizeAll, Tensor } from "@netcl/netcl";
import { type Precision, uniform } from "./models.ts";
import { modelStep } from "./netcl_steps.ts";
import type { Maker } from "./serve.ts";
import { CellLoop, Diffusion, GAT, Llama, UNet, ViT } from "./wild_models.ts";

const squares = (output: Tensor, y: Tensor): Tensor => nn.mse(output, y);

/** The makers by name; `sync` waits for the device. */
export function wildWorks(sync: () => void, isGPU: boolean): Record<string, Maker> {
  const labels = (count: number, most: number) => Tensor.randint(0, most, [count]).realize();
  const images = (batch: number, side: number) => uniform([batch, 3, side, side]);
  const llama = (precision: Precision): Maker => (batch, variant) => {
    const sizes = isGPU
      ? {
        vocabulary: 32000,
        context: 512,
        width: 768,
        hidden: 2048,
        heads: 12,
        groups: 4,
        layers: 12,
      }
      : { vocabulary: 1000, context: 64, width: 128, hidden: 384, heads: 4, groups: 2, layers: 4 };
    const model = new Llama(sizes), optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
    const ids = () => Tensor.randint(0, sizes.vocabulary, [batch, sizes.context]).realize();
    return modelStep({ model, optimizer, x: ids(), y: ids(), precision, variant, sync });
  };
  const vit = (precision: Precision): Maker => (batch, variant) => {
    const sizes = isGPU
      ? { side: 224, patch: 16, width: 384, heads: 6, layers: 12 }
      : { side: 32, patch: 4, width: 96, heads: 3, layers: 4 };
    const model = new ViT(sizes), optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
    const x = images(batch, sizes.side), y = labels(batch, 10);
    return modelStep({ model, optimizer, x, y, precision, variant, sync });
  };
  const unet = (precision: Precision): Maker => (batch, variant) => {
    const side = isGPU ? 128 : 64, model = new UNet(isGPU ? [32, 64, 128, 256] : [8, 16, 32]);
    const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
    const x = images(batch, side), y = labels(batch * side * side, 4);
    return modelStep({ model, optimizer, x, y, precision, variant, sync });
  };
  const diffusion = (precision: Precision): Maker => (batch, variant) => {
    const model = new Diffusion(isGPU ? 64 : 16);
    const optimizer = new optim.AdamW(model.parameters(), { lr: 1e-3 });
    const parts = { x: images(batch, 32), y: images(batch, 32), lossOf: squares };
    return modelStep({ model, optimizer, ...parts, precision, variant, sync });
  };
  const gat: Maker = (edges, variant) => {
    const nodes = edges / 10, features = isGPU ? 128 : 32;
    const model = new GAT(features, nodes, edges);
    const optimizer = new optim.Adam(model.parameters(), { lr: 1e-3 });
    const x = uniform([nodes, features]), y = labels(nodes, 10);
    return modelStep({ model, optimizer, x, y, precision: "float32", variant, sync });
  };
  const cells: Maker = (batch, variant) => {
    const width = isGPU ? 512 : 128, model = new CellLoop(width);
    const optimizer = new optim.SGD(model.parameters(), { lr: 0.01 });
    const parts = { x: uniform([32, batch, width]), y: uniform([batch, width]), lossOf: squares };
    return modelStep({ model, optimizer, ...parts, precision: "float32", variant, sync });
  };
  return {
    llama: llama("float32"),
    "llama-bfloat16": llama("bfloat16"),
    vit: vit("float32"),
    "vit-bfloat16": vit("bfloat16"),
    unet: unet("float32"),
    "unet-bfloat16": unet("bfloat16"),
    diffusion: diffusion("float32"),
    "diffusion-bfloat16": diffusion("bfloat16"),
    gat,
    "lstm-cells": cells,
    "attention-written": written("float32", sync, isGPU),
    "attention-written-bfloat16": written("bfloat16", sync, isGPU),
  };
}

/** Attention with its gradients as people write it by hand: two products and a softmax. */
function written(dtype: Precision, sync: () => void, isGPU: boolean): Maker {
  return (length, variant) => {
    const shape = isGPU ? [8, 12, length, 64] : [2, 4, length, 32];
    const inputs = Array.from({ length: 3 }, () => uniform(shape, dtype));
    for (const input of inputs) input.requiresGrad = true;
    const [q, k, v] = inputs as [Tensor, Tensor, Tensor];
    const gradients = [noGrad(() => Tensor.ones(shape, { dtype }).realize())];
    const step = () => {
      const scores = q.matmul(k.transpose(-2, -1)).div(Math.sqrt(shape[3]!));
      return grad([scores.softmax(-1).matmul(v)], inputs, { gradients });
    };
    const call = variant === "compiled" ? compile(step) : step;
    const run = () => {
      const found = call();
      realizeAll(found);
      for (const tensor of found) tensor.dispose();
    };
    return { run, sync };
  };
}
