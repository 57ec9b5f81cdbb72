/** The works that are tuned: contractions as tensors make them, by name. */
import type { PlanningDevice } from "../../backend/kernel/template.ts";
import { schedule } from "../../backend/internal.ts";
import { contractionMatch } from "../../backend/opencl/templates/generate.ts";
import type { OpenCLBackend } from "../../backend/opencl/runtime/opencl_backend.ts";
import type { ContractionSize } from "../../backend/opencl/templates/parts/tiling.ts";
import type { DType } from "../../backend/graph/dtype.ts";
import type { LoopKernel } from "../../backend/kernel/kernel.ts";
import { nn, Tensor } from "../../mod.ts";
import { nodeOf } from "../../tensor/core/internals.ts";

/** Tensors that are not computed yet, by what each is. */
export interface TuneWork {
  readonly name: string;
  readonly make: () => Record<string, Tensor>;
}

/** An array that a kernel reads or writes. */
export interface Operand {
  readonly dtype: DType;
  readonly size: number;
}

/** A kernel with a contraction in it, and its buffers. */
export interface ContractionWork {
  readonly name: string;
  readonly kernel: LoopKernel;
  readonly shape: ContractionSize;
  readonly inputs: readonly Operand[];
  readonly outputs: readonly Operand[];
}

/** Forms of each kind of work on the command line. */
export const kinds = {
  matmul: { form: /^(?:\d+x){2,3}\d+$/, usage: "[BATCHx]MxKxN", make: matmul },
  linear: { form: /^\d+x\d+x\d+$/, usage: "BATCHxINxOUT", make: linear },
  conv: { form: /^(?:\d+x){3}\d+,\d+,\d+$/, usage: "NxCxHxW,FILTERS,SIZE", make: conv },
} as const;

/** The works that are tuned where nothing is named: powers of two, products of unlike sides, a few layers. */
export const defaultWorks: readonly TuneWork[] = [
  ...[64, 128, 256, 512, 1024, 2048].map((n) => work("matmul", `${n}x${n}x${n}`)),
  ...["16x64x64x64", "8x256x256x256", "12x128x64x128"].map((size) => work("matmul", size)),
  ...["1x1024x1024", "16x4096x64", "4096x16x4096", "32x8192x32"].map((size) =>
    work("matmul", size)
  ),
  ...[64, 512].flatMap((batch) =>
    ["784x256", "256x128", "128x10"].map((size) => work("linear", `${batch}x${size}`))
  ),
  ...["64x1x28x28,16,3", "32x16x28x28,32,3"].map((size) => work("conv", size)),
];

/**
 * A work as the command line names it.
 *
 * @throws {TypeError} When it is not written as its kind is.
 */
export function work(kind: keyof typeof kinds, size: string): TuneWork {
  const { form, usage, make } = kinds[kind];
  if (!form.test(size)) {
    throw new TypeError(`Cannot tune --${kind} ${size}: write it as ${usage}`);
  }
  const numbers = size.match(/\d+/g)!.map(Number);
  if (numbers.includes(0)) throw new TypeError(`Cannot tune --${kind} ${size}: a size is 0`);
  return { name: `${kind} ${size}`, make: () => make(...numbers) };
}

function random(...shape: number[]): Tensor {
  return Tensor.rand(shape).sub(0.5).realize();
}

function matmul(...sizes: number[]): Record<string, Tensor> {
  const [n, k, m, ...batch] = sizes.toReversed() as [number, number, number];
  return { product: random(...batch, m, k).matmul(random(...batch, k, n)) };
}

/** A result and its gradients by the input and the weights. */
function withGradients(layer: nn.Module, weight: Tensor, x: Tensor): Record<string, Tensor> {
  x.requiresGrad = true;
  const forward = layer.forward(x);
  forward.backward(random(...forward.shape));
  return { forward, dx: x.grad!, dW: weight.grad! };
}

function linear(...[batch, inputs, outputs]: number[]): Record<string, Tensor> {
  const layer = new nn.Linear(inputs!, outputs!);
  return withGradients(layer, layer.weight, random(batch!, inputs!));
}

function conv(...[n, c, h, w, filters, size]: number[]): Record<string, Tensor> {
  const layer = new nn.Conv2d(c!, filters!, size!, { padding: size! >> 1 });
  return withGradients(layer, layer.weight, random(n!, c!, h!, w!));
}

/** The contractions among the kernels of a work whose tiles a backend can choose. */
export function contractionsOf(
  { name, make }: TuneWork,
  { target, planKernel }: OpenCLBackend,
): ContractionWork[] {
  // In how many parts a sum is computed is tuned, too: it is planned whole.
  const device: PlanningDevice = {
    target,
    planKernel: (kernel) => ({ ...planKernel(kernel, target), sumParts: 1 }),
  };
  return Object.entries(make()).flatMap(([part, tensor]) => {
    const { kernels, order } = schedule([nodeOf(tensor)], { device });
    const operands = (at: readonly number[]): Operand[] => at.map((k) => order[k]!);
    return kernels.flatMap(({ kernel, inputs, outputs }) => {
      if (kernel.kind !== "loop" || kernel.contraction === null) return [];
      const { shape } = contractionMatch(kernel, target).plan;
      if (shape === null) return [];
      return [{
        name: part === "product" ? name : `${name} ${part}`,
        kernel,
        shape,
        inputs: operands(inputs),
        outputs: operands(outputs),
      }];
    });
  });
}
