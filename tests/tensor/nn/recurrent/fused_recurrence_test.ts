/** All steps of a recurrent layer as one kernel: the same values and gradients as step by step. */
import { assert, assertEquals } from "@std/assert";
import { backendOf } from "../../../../backend/internal.ts";
import {
  type BackendName,
  type DType,
  grad,
  manager,
  manualSeed,
  nn,
  noGrad,
  profiler,
  realizeAll,
  Tensor,
  withDevice,
} from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";

/** With so many bytes of weights no layer is one kernel, or every one. */
const NEVER = 0, ALWAYS = 2 ** 21;

async function withLimit<R>(name: BackendName, bytes: number, run: () => Promise<R>): Promise<R> {
  const { capabilities } = backendOf(manager.default(name));
  const former = capabilities.maxRecurrentBytes;
  Object.assign(capabilities, { maxRecurrentBytes: bytes });
  try {
    return await run();
  } finally {
    Object.assign(capabilities, { maxRecurrentBytes: former });
  }
}

interface Sizes {
  readonly steps: number;
  readonly batch: number;
  readonly hidden: number;
}

const layers: Record<string, (hidden: number) => nn.Recurrent> = {
  lstm: (hidden) => new nn.LSTM(3, hidden, { numLayers: 2 }),
  "lstm both ways": (hidden) => new nn.LSTM(3, hidden, { bidirectional: true, bias: false }),
  gru: (hidden) => new nn.GRU(3, hidden, { numLayers: 2 }),
  "gru both ways": (hidden) => new nn.GRU(3, hidden, { bidirectional: true, bias: false }),
  rnn: (hidden) => new nn.RNN(3, hidden, { bidirectional: true }),
  "rnn of relu": (hidden) => new nn.RNN(3, hidden, { nonlinearity: "relu" }),
};

/** Output, last state, and gradients of the input, the first state and all weights. */
async function valuesOf(
  make: (hidden: number) => nn.Recurrent,
  { steps, batch, hidden }: Sizes,
  dtype: DType,
): Promise<number[]> {
  manualSeed(7);
  const model = make(hidden).cast(dtype);
  const directions = model.forward(Tensor.zeros([1, 1, 3], { dtype })).state;
  const x = Tensor.randn([steps, batch, 3]).cast(dtype).realize();
  const first = directions.map(({ shape }) =>
    Tensor.randn([shape[0]!, batch, hidden]).cast(dtype).realize()
  );
  for (const leaf of [x, ...first]) leaf.requiresGrad = true;
  const { output, state } = model.forward(x, first);
  const weights = Tensor.randn(output.shape).cast(dtype).realize();
  const loss = state.reduce(
    (sum, s, k) => sum.add(s.cast("float32").sum().mul(k + 2)),
    output.mul(weights).cast("float32").sum(),
  );
  const found = grad([loss], [x, ...first, ...model.parameters()]);
  const all = await Promise.all(
    [output, ...state, ...found].map((t) => t.cast("float32").toArray()),
  );
  return all.flat(5) as number[];
}

function assertAlike(found: readonly number[], expected: readonly number[], share: number): void {
  assertEquals(found.length, expected.length);
  const largest = expected.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  found.forEach((value, k) => {
    const off = Math.abs(value - expected[k]!);
    assert(off <= share * largest, `${k}: ${value} for ${expected[k]} (largest ${largest})`);
  });
}

/** Whole vectors of features and parts of them, more rows than a work-item takes and fewer. */
const sizes: readonly Sizes[] = [
  { steps: 5, batch: 3, hidden: 5 },
  { steps: 3, batch: 17, hidden: 17 },
  { steps: 2, batch: 9, hidden: 16 },
];
/** Sums longer than a panel of the built-in backend, in tiles of every height. */
const longSizes: readonly Sizes[] = [1, 4, 13, 50].map((batch) => ({
  steps: 2,
  batch,
  hidden: 130,
}));

for (const [name, make] of Object.entries(layers)) {
  testOnBackends(`${name}: a layer as one kernel is the layer step by step`, async (backend) => {
    for (const size of backend === "cpu" ? [...sizes, ...longSizes] : sizes) {
      const fused = (dtype: DType): Promise<number[]> =>
        withDevice(backend, () => withLimit(backend, ALWAYS, () => valuesOf(make, size, dtype)));
      const steps = await withDevice(
        "cpu",
        () => withLimit("cpu", NEVER, () => valuesOf(make, size, "float32")),
      );
      assertAlike(await fused("float32"), steps, 1e-5);
      // A rounded sum may be on the other side of a relu's bend.
      if (size.hidden !== 5 || name === "rnn of relu") continue;
      assertAlike(await fused("float16"), steps, 1e-2);
      assertAlike(await fused("bfloat16"), steps, 1e-1);
    }
  });
}

testOnBackends(
  "a pass over all steps of a layer is one kernel, whatever the steps",
  (backend) =>
    withDevice(backend, () => {
      if (backendOf(manager.default(backend)).capabilities.maxRecurrentBytes === 0) return;
      for (const make of Object.values(layers)) {
        const counts = [3, 24].map((steps) => {
          const model = make(8), x = Tensor.randn([steps, 4, 3]).realize();
          const count = (run: () => void): number => {
            run();
            profiler.reset();
            run();
            return profiler.counters().kernels;
          };
          const learned = (): void => {
            const found = grad([model.forward(x).output.sum()], model.parameters());
            realizeAll(found);
          };
          return [count(() => noGrad(() => model.forward(x).output.realize())), count(learned)];
        });
        assertEquals(counts[0], counts[1]);
      }
    }),
);

testOnBackends(
  "second derivatives of a layer as one kernel are those of its steps",
  (backend) =>
    withDevice(backend, async () => {
      const run = async (): Promise<number[]> => {
        manualSeed(3);
        const model = new nn.GRU(3, 5), x = Tensor.randn([3, 2, 3]).realize();
        x.requiresGrad = true;
        const [slope] = grad([model.forward(x).output.square().sum()], [x], { createGraph: true });
        const found = grad([slope!.square().sum()], [x, ...model.parameters()]);
        return (await Promise.all(found.map((t) => t.toArray()))).flat(3) as number[];
      };
      const [fused, steps] = [
        await withLimit(backend, ALWAYS, run),
        await withLimit(backend, NEVER, run),
      ];
      assertAlike(fused, steps, 2e-6);
    }),
);
