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
  realizeAll,
  Tensor,
  withDevice,
} from "../../../../mod.ts";
import { testOnBackends } from "../../../opencl.ts";
import { withCapabilities } from "../../capabilities.ts";
import { kernelsOf } from "../../training.ts";

/** With so many bytes of weights no layer is one kernel, or every one. */
const NEVER = 0, ALWAYS = 2 ** 21;

function withLimit<R>(name: BackendName, bytes: number, run: () => Promise<R>): Promise<R> {
  return withCapabilities(name, { maxRecurrentBytes: bytes }, run);
}

type Numbers = Float32Array<ArrayBuffer>;

interface Sizes {
  readonly steps: number;
  readonly batch: number;
  readonly hidden: number;
}

const layers: Record<string, (hidden: number) => nn.RNN | nn.LSTM | nn.GRU> = {
  lstm: (hidden) => new nn.LSTM(3, hidden, { numLayers: 2 }),
  "lstm both ways": (hidden) => new nn.LSTM(3, hidden, { bidirectional: true, bias: false }),
  gru: (hidden) => new nn.GRU(3, hidden, { numLayers: 2 }),
  "gru both ways": (hidden) => new nn.GRU(3, hidden, { bidirectional: true, bias: false }),
  rnn: (hidden) => new nn.RNN(3, hidden, { bidirectional: true }),
  "rnn of relu": (hidden) => new nn.RNN(3, hidden, { nonlinearity: "relu" }),
};

/** Output, last state, and gradients of the input, the first state and all weights. */
function valuesOf(
  make: (hidden: number) => nn.RNN | nn.LSTM | nn.GRU,
  { steps, batch, hidden }: Sizes,
  dtype: DType,
): Promise<Numbers> {
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
  return numbersOf([output, ...state, ...found]);
}

/** The elements of tensors, one behind the other. */
async function numbersOf(tensors: readonly Tensor[]): Promise<Numbers> {
  const singles = tensors.map((t) => t.cast("float32"));
  realizeAll(singles); // in one schedule
  const numbers = new Float32Array(singles.reduce((sum, { size }) => sum + size, 0));
  let at = 0;
  for (const single of singles) {
    numbers.set(await single.toHost("float32"), at);
    at += single.size;
  }
  return numbers;
}

function assertAlike(found: Numbers, expected: Numbers, share: number): void {
  assertEquals(found.length, expected.length);
  const largest = expected.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const isAlike = (value: number, k: number): boolean =>
    Math.abs(value - expected[k]!) <= share * largest;
  const at = found.findIndex((value, k) => !isAlike(value, k));
  assert(at < 0, `${at}: ${found[at]} for ${expected[at]} (largest ${largest})`);
}

/** Whole vectors of features and parts of them, more rows than a work-item takes and fewer. */
const sizes: readonly Sizes[] = [
  { steps: 5, batch: 3, hidden: 5 },
  { steps: 3, batch: 17, hidden: 17 },
  { steps: 2, batch: 9, hidden: 16 },
];
/** Sums longer than a panel of the built-in backend, in tiles of every height. */
const longSizes = [1, 4, 13, 50].map((batch): Sizes => ({ steps: 2, batch, hidden: 130 }));

for (const [name, make] of Object.entries(layers)) {
  const expected = new Map<Sizes, Promise<Numbers>>();
  /** The layer step by step on the built-in backend, which both backends are held against. */
  const stepByStep = (size: Sizes): Promise<Numbers> => {
    if (!expected.has(size)) {
      const values = (): Promise<Numbers> => valuesOf(make, size, "float32");
      expected.set(size, withDevice("cpu", () => withLimit("cpu", NEVER, values)));
    }
    return expected.get(size)!;
  };
  testOnBackends(`${name}: a layer as one kernel is the layer step by step`, async (backend) => {
    for (const size of backend === "cpu" ? [...sizes, ...longSizes] : sizes) {
      const fused = (dtype: DType) => withLimit(backend, ALWAYS, () => valuesOf(make, size, dtype));
      const steps = await stepByStep(size);
      assertAlike(await fused("float32"), steps, 1e-5);
      // A rounded sum may be on the other side of a relu's bend.
      if (size.hidden !== 5 || name === "rnn of relu") continue;
      assertAlike(await fused("float16"), steps, 1e-2);
      assertAlike(await fused("bfloat16"), steps, 1e-1);
    }
  });
}

testOnBackends("FusedRecurrence: a pass over all steps of a layer is one kernel", (backend) => {
  if (backendOf(manager.default(backend)).capabilities.maxRecurrentBytes === 0) return;
  for (const make of Object.values(layers)) {
    const counts = [3, 24].map((steps) => {
      const model = make(8), x = Tensor.randn([steps, 4, 3]).realize();
      const count = (run: () => void): number => {
        run();
        return kernelsOf(run);
      };
      const learned = (): void =>
        realizeAll(grad([model.forward(x).output.sum()], model.parameters()));
      return [count(() => noGrad(() => model.forward(x).output.realize())), count(learned)];
    });
    assertEquals(counts[0], counts[1]);
  }
});

testOnBackends("FusedRecurrence: second derivatives are those of its steps", async (backend) => {
  const run = (): Promise<Numbers> => {
    manualSeed(3);
    const model = new nn.GRU(3, 5), x = Tensor.randn([3, 2, 3]).realize();
    x.requiresGrad = true;
    const [slope] = grad([model.forward(x).output.square().sum()], [x], { createGraph: true });
    return numbersOf(grad([slope!.square().sum()], [x, ...model.parameters()]));
  };
  const fused = await withLimit(backend, ALWAYS, run);
  assertAlike(fused, await withLimit(backend, NEVER, run), 2e-6);
});
