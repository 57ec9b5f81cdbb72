/** Models that are trained: a batch a device. */
import { type DeviceHandle, type nn, noGrad, Tensor } from "../../mod.ts";
import { makeModel } from "../../examples/train/model.ts";
import { GPT, ResNet } from "../peers/models.ts";

/** A model, and batches for it. */
export interface Model {
  readonly name: string;
  /** Samples a batch. */
  readonly batch: number;
  make(): nn.Module;
  /** Inputs and labels, the same numbers everywhere. */
  data(device: DeviceHandle): [x: Tensor, y: Tensor];
}

function placed(device: DeviceHandle, make: () => Tensor): Tensor {
  return noGrad(() => make().realize().to(device));
}

function resnet(isTiny: boolean): Model {
  const batch = isTiny ? 16 : 128;
  return {
    name: isTiny ? "resnet-8" : "resnet-18",
    batch,
    make: () => isTiny ? new ResNet([8, 16], 1) : new ResNet([64, 128, 256, 512], 2),
    data: (device) => [
      placed(device, () => Tensor.rand([batch, 3, 32, 32])),
      placed(device, () => Tensor.randint(0, 10, [batch])),
    ],
  };
}

function gpt(isTiny: boolean): Model {
  const sizes = isTiny
    ? { vocabulary: 64, context: 32, width: 32, heads: 2, layers: 2 }
    : { vocabulary: 65, context: 256, width: 384, heads: 6, layers: 6 };
  const batch = isTiny ? 4 : 64, { context, vocabulary } = sizes;
  return {
    name: isTiny ? "gpt-tiny" : "gpt-10M",
    batch,
    make: () => new GPT(sizes),
    data: (device) => [
      placed(device, () => Tensor.randint(0, vocabulary, [batch, context])),
      placed(device, () => Tensor.randint(0, vocabulary, [batch * context])),
    ],
  };
}

/** The CNN of examples/train.ts, for MNIST. */
function cnn(isTiny: boolean): Model {
  const batch = isTiny ? 16 : 64;
  return {
    name: "cnn",
    batch,
    make: () => makeModel("cnn", 28),
    data: (device) => [
      placed(device, () => Tensor.rand([batch, 1, 28, 28])),
      placed(device, () => Tensor.randint(0, 10, [batch])),
    ],
  };
}

/** @throws {RangeError} For a name that is not "resnet", "gpt" or "cnn". */
export function models(name: string, isTiny: boolean): Model {
  if (name === "resnet") return resnet(isTiny);
  if (name === "gpt") return gpt(isTiny);
  if (name === "cnn") return cnn(isTiny);
  throw new RangeError(`There is no model "${name}": pass --model resnet, gpt, cnn, or several`);
}
