// Suite: quick kernels, alone; asks what all blocks of the process come to.
/**
 * Every operation gives back all that it has made once its results are disposed of, whether `backward` has
 * gone through it or not: with no collection and no await.
 */
import { type BackendName, grad, memory, realizeAll, Tensor } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";
import { allCases, assertNoProblems, type Case, cotangent, titleOf } from "./fixture.ts";
import { lay } from "./layouts.ts";
import { apart, operations, sampleFor } from "./operations.ts";

const cases = allCases().filter((c) => !apart.has(titleOf(c)));

/** So often is each loop gone through, and so many times before memory is held to be flat. */
const TURNS = 5, FIRST = 2;

/** Operations of several kernels, tried on OpenCL: each new kernel costs a compiler run. */
const compiled: ReadonlySet<string> = new Set(
  "sort topk maxWithIndices prelu lerp maskedSelect cummax sinc hypot median".split(" "),
);

/** A call of an operation: its results, those with a gradient among them, and its leaves. */
interface Call {
  readonly results: readonly Tensor[];
  readonly floats: readonly Tensor[];
  readonly weights: readonly Tensor[];
  readonly leaves: readonly Tensor[];
}

const loops: Record<string, (call: Call) => void> = {
  "is computed": ({ results }) => realizeAll([...results]),
  "is differentiated": ({ results, floats, weights, leaves }) => {
    realizeAll([...results]);
    if (floats.length === 0) return;
    disposeAll(realized(grad(floats, leaves, { gradients: weights })));
  },
  "goes backward": ({ results, floats, weights, leaves }) => {
    realizeAll([...results]);
    floats.forEach((y, k) => y.backward(weights[k], { retainGraph: k + 1 < floats.length }));
    realizeAll(leaves.flatMap((leaf) => leaf.grad ?? []));
    for (const leaf of leaves) leaf.grad?.dispose(), leaf.grad = null;
  },
  "is differentiated twice": ({ results, floats, weights, leaves }) => {
    realizeAll([...results]);
    if (floats.length === 0) return;
    const first = realized(grad(floats, leaves, { gradients: weights, createGraph: true }));
    const again = first.filter((g) => g.requiresGrad);
    const along = again.map((g) => g.detach());
    if (again.length > 0) disposeAll(realized(grad(again, leaves, { gradients: along })));
    disposeAll([...first, ...along]);
  },
};

function realized(tensors: readonly Tensor[]): readonly Tensor[] {
  realizeAll([...tensors]);
  return tensors;
}

function disposeAll(tensors: readonly Tensor[]): void {
  for (const tensor of tensors) tensor.dispose();
}

/** Growth of what is held, in bytes, after each turn of a loop over a case. */
function growthOf(c: Case, backend: BackendName, loop: (call: Call) => void): number[] {
  const inputs = c.inputs.map((v, k) =>
    lay(v, "plain", { backend, requiresGrad: c.grads?.[k] != null }).tensor.realize()
  );
  const leaves = inputs.filter((x) => x.requiresGrad);
  const weights: Tensor[] = [], held: number[] = [];
  for (let turn = 0; turn < TURNS; turn++) {
    const made = operations[c.op]!.call(inputs, c.args);
    const results = made instanceof Tensor ? [made] : made;
    const floats = results.filter((y) => y.requiresGrad);
    for (const { size, shape, dtype } of floats.slice(weights.length)) {
      weights.push(Tensor.fromHost(cotangent(size), { shape, dtype, backend }).realize());
    }
    loop({ results, floats, weights, leaves });
    disposeAll(results.filter((y) => !inputs.includes(y)));
    held.push(memory.stats().requestedBytes);
  }
  disposeAll([...inputs, ...weights]);
  return held.slice(FIRST).map((bytes) => bytes - held[FIRST - 1]!);
}

for (const [title, loop] of Object.entries(loops)) {
  testOnBackends(`an operation that ${title} holds nothing behind it`, (backend) => {
    const tried = sampleFor(backend, cases).filter(({ op }) =>
      backend === "cpu" || compiled.has(op)
    );
    const problems = tried.flatMap((c) => {
      const grown = growthOf(c, backend, loop);
      return grown.some((bytes) => bytes > 0) ? [`${titleOf(c)}: ${grown}`] : [];
    });
    assertNoProblems(problems, tried.length);
  });
}
