/** A run that is saved and goes on in another process equals the one that was not interrupted. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import {
  amp,
  compile,
  DataLoader,
  FileFormatError,
  loadCheckpoint,
  manualSeed,
  nn,
  optim,
  randomState,
  saveCheckpoint,
  saveSafetensors,
  Tensor,
  TensorDataset,
} from "../../../mod.ts";
import { testOnBackends } from "../../opencl.ts";
import { inFolder } from "../../temporary_folder.ts";

const data = Float32Array.from({ length: 10 * 4 }, (_, k) => Math.sin(k));
const labels = { data: Int32Array.from({ length: 10 }, (_, k) => k % 3), shape: [10] };
const dataset = new TensorDataset({ data, shape: [10, 4] }, labels);

type Half = "float16" | "bfloat16" | null;

class Run {
  readonly #layers = [new nn.Linear(4, 8), new nn.ReLU(), new nn.Dropout(0.3)];
  readonly model = new nn.Sequential(...this.#layers, new nn.Linear(8, 3));
  readonly optimizer = new optim.AdamW(this.model.parameters(), { lr: 0.0123 });
  readonly scheduler = new optim.ExponentialLR(this.optimizer, { gamma: 0.7 });
  readonly plateau = new optim.ReduceLROnPlateau(this.optimizer, { patience: 0, factor: 0.3 });
  readonly scaler = new amp.GradScaler({ growthInterval: 3 });
  readonly loader = new DataLoader(dataset, { batchSize: 3, shuffle: true });
  readonly losses: number[] = [];
  readonly #learn: (x: Tensor, y: Tensor) => Tensor;

  constructor(readonly half: Half, isCompiled: boolean) {
    this.#learn = isCompiled ? compile((x, y) => this.#step(x, y)) : (x, y) => this.#step(x, y);
  }

  get parts() {
    const { model, optimizer, scheduler, plateau, scaler, loader } = this;
    return { model, optimizer, scheduler, plateau, scaler, loader };
  }

  #step(x: Tensor, y: Tensor): Tensor {
    const forward = () => this.model.forward(x) as Tensor;
    const logits = this.half ? amp.autocast(this.half, forward) : forward();
    const loss = logits.cast("float32").crossEntropy(y);
    this.optimizer.zeroGrad();
    if (this.half) this.scaler.scale(loss).backward();
    else loss.backward();
    if (this.half) this.scaler.step(this.optimizer), this.scaler.update();
    else this.optimizer.step();
    return loss;
  }

  /** Learns until the total number of losses is `until`; the rest of a pass may follow later. */
  async train(until: number, save: (() => Promise<void>) | null, at = -1): Promise<void> {
    while (this.losses.length < until) {
      for await (const [x, y] of this.loader) {
        const loss = await this.#learn(x!, y!).item();
        this.losses.push(loss);
        if (this.losses.length === at) await save!();
        if (this.losses.length >= until) return;
      }
      this.scheduler.step();
      this.plateau.step(this.losses.at(-1)!);
    }
  }
}

function path(fn: (path: string) => Promise<void>): Promise<void> {
  return inFolder((folder) => fn(`${folder}/run.safetensors`));
}

async function weights(run: Run): Promise<unknown[]> {
  return await Promise.all(run.model.parameters().map((p) => p.toArray()));
}

const kinds: [name: string, half: Half, isCompiled: boolean][] = [
  ["a run", null, false],
  ["a compiled run", null, true],
  ["a run under float16 with a scaler", "float16", false],
  ["a run under bfloat16 with a scaler", "bfloat16", false],
];
for (const [name, half, isCompiled] of kinds) {
  // In the middle of a pass, at its last batch, and at the first of the second.
  for (const at of name === "a run" ? [2, 4, 5] : [6]) {
    testOnBackends(`${name} goes on bit for bit from step ${at}`, () =>
      path(async (file) => {
        manualSeed(11);
        const whole = new Run(half, isCompiled);
        await whole.train(11, () =>
          saveCheckpoint(file, { ...whole.parts, at, note: ["a", { b: null }] }), at);
        manualSeed(99);
        const resumed = new Run(half, isCompiled);
        // Whatever it did before is gone.
        await resumed.train(1, null);
        const values = await loadCheckpoint(file, resumed.parts);
        assertEquals(values, { at, note: ["a", { b: null }] });
        resumed.losses.splice(0, 1, ...whole.losses.slice(0, at));
        await resumed.train(11, null);
        assertEquals(resumed.losses, whole.losses);
        assertEquals(await weights(resumed), await weights(whole));
        assertEquals(resumed.optimizer.lr, whole.optimizer.lr);
        assert(whole.losses[0] !== whole.losses[5]);
      }));
  }
}

testOnBackends("a checkpoint that does not fit is refused, and its reason said", () => {
  return path(async (file) => {
    const model = new nn.Linear(2, 2), larger = new nn.Linear(3, 2);
    type Fails = [fn: () => Promise<unknown>, type: new (m: string) => Error, pattern: RegExp];
    const fails = async (...[fn, type, pattern]: Fails) =>
      assertMatch((await assertRejects(fn, type)).message, pattern);
    await saveCheckpoint(file, { model, epoch: 2 });
    const state = randomState();
    await fails(() => loadCheckpoint(file, { net: model }), RangeError, /"net": .* has model/);
    const epoch = { epoch: 1 } as never, fn = { model: (() => {}) as never };
    await fails(() => loadCheckpoint(file, epoch), TypeError, /"epoch", which is 1/);
    await fails(() => loadCheckpoint(file, { model: larger }), RangeError, /weight/);
    assertEquals(randomState(), state);
    await fails(() => saveCheckpoint(file, fn), TypeError, /"model"/);
    await fails(() => saveCheckpoint(file, { loss: NaN }), TypeError, /"loss", which is NaN/);
    await fails(() => saveCheckpoint(file, { "a.b": 1 }), TypeError, /"a.b"/);
    const big = { step: 1n as never }, ring: Record<string, never> = {};
    ring.self = ring as never;
    await fails(() => saveCheckpoint(file, { big }), TypeError, /"big.step", which is 1n/);
    await fails(() => saveCheckpoint(file, { ring }), TypeError, /"ring\..*", which is/);
    assertEquals(await loadCheckpoint(file, {}), { epoch: 2 });
    await saveSafetensors(file, model.stateDict());
    await fails(() => loadCheckpoint(file, { model }), FileFormatError, /no checkpoint/);
    const good = { states: {}, values: {}, tensors: ["model"], rates: {} };
    const damaged = [{ seed: 1 }, { seed: 1, offset: 0.5 }, { "3eed": 1, offset: 1 }]
      .map((random) => JSON.stringify({ ...good, random }));
    const random = { seed: 1, offset: 1 }, rates = { optimizer: ["x"] };
    damaged.push(JSON.stringify({ ...good, random, rates }), '{"tensors":"model"}');
    for (const text of ["", "null", "{", "[]", '{"states":{}}', ...damaged]) {
      const metadata = { "netcl.checkpoint": text };
      await saveSafetensors(file, model.stateDict(), { metadata });
      await fails(() => loadCheckpoint(file, { model }), FileFormatError, /is damaged: its/);
    }
  });
});

/** A part of a user's own, whose state are its own tensors. */
class Statistics {
  mean: Tensor = Tensor.fromHost([1, 2]);

  stateDict(): object {
    return { mean: this.mean };
  }

  loadStateDict({ mean }: { mean: Tensor }): void {
    this.mean = mean;
  }
}

/** A layer that gives its parameters themselves as its state, and keeps what it is given. */
class Scale extends nn.Module {
  weight: Tensor = nn.parameter(Tensor.fromHost([3, 4]));
  last: Tensor | null = null;

  override stateDict(): Record<string, Tensor> {
    return { weight: this.weight };
  }

  override loadStateDict(state: Record<string, Tensor>): nn.LoadReport {
    this.last = state.weight!;
    return super.loadStateDict(state);
  }

  forward(x: Tensor): Tensor {
    return x.mul(this.weight);
  }
}

testOnBackends("a part's own tensors stay its own, whether saved or loaded", () => {
  return path(async (file) => {
    const statistics = new Statistics(), scale = new Scale();
    const averages = new optim.AveragedModel(scale);
    for (let k = 0; k < 2; k++) {
      await saveCheckpoint(file, { statistics, scale });
      assertEquals(await statistics.mean.toArray(), [1, 2]);
      assertEquals(await scale.weight.toArray(), [3, 4]);
      await loadCheckpoint(file, { statistics, scale });
      assertEquals(await statistics.mean.toArray(), [1, 2]);
      assertEquals(await scale.last!.toArray(), [3, 4]);
    }
    assertEquals(await averages.averages().weight!.toArray(), [3, 4]);
    assertEquals(await scale.weight.toArray(), [3, 4]);
  });
});

testOnBackends("a state that no checkpoint holds is refused, not lost", () =>
  path(async (file) => {
    const x = Tensor.ones([2]), loadStateDict = (): void => {};
    const states: [unknown, RegExp][] = [
      [{ mean: x, count: 3 }, /"part".*count, which is 3/],
      [{ mean: [1, { inner: x }] }, /"part".*mean\.1\.inner, which is a Tensor/],
      [{ rates: [1, NaN] }, /"part".*rates\.1, which is NaN/],
      [{ at: new Map([["a", 1]]) }, /"part".*at, which is/],
      [{ at: undefined }, /"part".*at, which is undefined/],
      [Promise.resolve({ mean: x }), /"part".*Promise/],
      [null, /"part".*null/],
      [x, /"part".*Tensor/],
    ];
    for (const [state, pattern] of states) {
      const part = { stateDict: () => state as object, loadStateDict };
      const error = await assertRejects(() => saveCheckpoint(file, { part }), TypeError);
      assertMatch(error.message, pattern);
      assertEquals(await x.toArray(), [1, 1]);
    }
    const part = { stateDict: () => ({ a: { b: [1, null, "c"] }, d: true }), loadStateDict };
    await saveCheckpoint(file, { part });
    await loadCheckpoint(file, { part });
  }));
