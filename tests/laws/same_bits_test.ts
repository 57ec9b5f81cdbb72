/** The same step from the same state gives the same bits: the first time, later, compiled. */
import { assertEquals } from "@std/assert";
import { amp, type BackendName, compile, manualSeed, nn, optim, Tensor } from "../../mod.ts";
import { testOnBackends } from "../opencl.ts";

type State = Record<string, Tensor>;

/** A copy of a state that shares nothing with what goes on learning. */
function copyOf(state: State): State {
  return Object.fromEntries(
    Object.entries(state).map(([name, t]) => {
      const data = t.toHostSync().slice();
      return [name, Tensor.fromHost(data, { shape: t.shape, dtype: t.dtype, device: t.device })];
    }),
  );
}

interface Part {
  stateDict(): State;
  loadStateDict(state: State): unknown;
}

const models: Record<string, () => { model: nn.Module; shape: number[] }> = {
  perceptron: () => ({
    model: new nn.Sequential(new nn.Linear(8, 32), new nn.ReLU(), new nn.Linear(32, 4)),
    shape: [12, 8],
  }),
  convolutional: () => ({
    model: new nn.Sequential(
      new nn.Conv2d(1, 4, 3, { padding: 1 }),
      new nn.BatchNorm2d(4),
      new nn.ReLU(),
      new nn.MaxPool2d(2),
      new nn.Flatten(),
      new nn.Dropout(0.2),
      new nn.Linear(16, 4),
    ),
    shape: [6, 1, 4, 4],
  }),
  normalized: () => ({
    model: new nn.Sequential(
      new nn.Linear(8, 24),
      new nn.LayerNorm(24),
      new nn.GELU(),
      new nn.Linear(24, 4),
    ),
    shape: [5, 8],
  }),
};

const optimizers: Record<string, (p: Tensor[]) => optim.Optimizer> = {
  SGD: (p) => new optim.SGD(p, { lr: 0.1 }),
  AdamW: (p) => new optim.AdamW(p, { lr: 0.01 }),
};

const STEPS = 3;

/** The parameters after one step from the same state, time and again. */
function bitsOf(
  kind: () => { model: nn.Module; shape: number[] },
  make: (p: Tensor[]) => optim.Optimizer,
  how: { type: "float32" | "float16" | "bfloat16"; clips: boolean; scales: boolean },
  isCompiled: boolean,
): string[] {
  manualSeed(7);
  const { model, shape } = kind(), optimizer = make(model.parameters());
  const scaler = new amp.GradScaler({ initScale: 256 });
  const parts: Part[] = [model, optimizer, ...(how.scales ? [scaler] : [])];
  const x = Tensor.randn(shape).realize(), y = Tensor.randint(0, 4, [shape[0]!]).realize();
  const step = (x: Tensor, y: Tensor): Tensor => {
    optimizer.zeroGrad();
    const loss = amp.autocast(how.type, () => model.forward(x).crossEntropy(y));
    (how.scales ? scaler.scale(loss) : loss).backward();
    if (how.scales) scaler.unscale(optimizer);
    if (how.clips) optim.clipGradNorm(model.parameters(), 1);
    if (how.scales) {
      scaler.step(optimizer);
      scaler.update();
    } else optimizer.step();
    return loss;
  };
  const run = isCompiled ? compile(step) : step, start = parts.map((p) => copyOf(p.stateDict()));
  return Array.from({ length: STEPS }, (_, k) => {
    if (k > 0) parts.forEach((part, i) => part.loadStateDict(copyOf(start[i]!)));
    manualSeed(11);
    run(x, y);
    return model.parameters().map((p) => String(p.toHostSync())).join();
  });
}

/** Parts of a step beside the model; every kernel takes a while to build on OpenCL: there it has all. */
function waysOn(backend: BackendName): { clips: boolean; scales: boolean }[] {
  const all = { clips: true, scales: true };
  if (backend === "cl") return [all];
  return [{ clips: false, scales: false }, { clips: true, scales: false }, all];
}

const cases = Object.entries(models).flatMap(([name, kind]) =>
  Object.entries(optimizers).map(([rule, make]) => ({ name: `${name}, ${rule}`, kind, make }))
);

for (const { name, kind, make } of cases) {
  for (const type of ["float32", "float16", "bfloat16"] as const) {
    testOnBackends(`a step has the same bits every time: ${name}, ${type}`, (backend) => {
      for (const way of waysOn(backend)) {
        const plain = bitsOf(kind, make, { type, ...way }, false);
        const compiled = bitsOf(kind, make, { type, ...way }, true);
        const others = [...plain, ...compiled].flatMap((bits, k) => bits === plain[0] ? [] : k);
        assertEquals(others, [], `steps of other bits, ${JSON.stringify(way)}`);
      }
    });
  }
}
