// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/**
 * Values that JavaScript would coerce or ignore without a word are errors that name them: those that the
 * declared types do not tell, see odd_values_test.ts for the others.
 */
import { assert, assertEquals } from "@std/assert";
import {
  amp,
  BufferPool,
  DataLoader,
  decodeIdx,
  decodeNpy,
  decodeSafetensors,
  detectAnomaly,
  enableGrad,
  encodeNpy,
  encodeSafetensors,
  getPinnedPool,
  isIntegratedGpu,
  manualSeed,
  memory,
  nn,
  optim,
  profiler,
  randomSplit,
  realizeAll,
  SlabPool,
  stackSamples,
  Subset,
  Tensor,
  withDevice,
} from "../../mod.ts";
import { attach, snapshotHandles } from "../../backend/mod.ts";
import { FaultPool, GuardPool, HostPool } from "@netcl/netcl/memory";

// deno-lint-ignore no-explicit-any -- what a caller without types may pass
type Untyped = any;
/** A call, and what its message must name. */
type Row = readonly [call: () => unknown, ...parts: string[]];

/** A class or an object whose types the compiler forgets. */
const untyped = (value: unknown): Untyped => value;
const T = untyped(Tensor), N = untyped(nn), O = untyped(optim), A = untyped(amp);

function onCPU<R>(fn: () => R): R {
  return withDevice("cpu", fn);
}

/** Each row throws a TypeError or RangeError of netcl's, which begins with what cannot be done. */
function assertNamed(rows: readonly Row[]): void {
  for (const [call, ...parts] of rows) {
    let error: unknown;
    try {
      onCPU(call);
    } catch (thrown) {
      error = thrown;
    }
    if (!(error instanceof TypeError || error instanceof RangeError)) {
      throw new Error(`${call} should be refused: got ${error}`);
    }
    for (const part of ["Cannot ", ...parts]) {
      assert(error.message.includes(part), `${call}: "${part}" is not in "${error.message}"`);
    }
  }
}

const x = onCPU(() => untyped(Tensor.ones([2, 3])));
const image = onCPU(() => untyped(Tensor.ones([1, 1, 4, 4])));
const leaf = onCPU(() => Tensor.ones([2], { requiresGrad: true }));
const model = onCPU(() => untyped(new nn.Linear(2, 2)));
const sgd = onCPU(() => new optim.SGD([leaf], { lr: 0.1 }));
const samples = { length: 10, get: () => [] };

Deno.test("making tensors: shapes are arrays, numbers are numbers", () => {
  assertNamed([
    [() => T.zeros([NaN]), "[NaN]"],
    [() => T.zeros(["2"]), '["2"]'],
    [() => T.fromHost("x"), 'string "x"'],
    [() => T.fromHost(new Set([1])), "Set"],
    [() => T.linspace(0, undefined, 3), "stop undefined"],
    [() => T.randint(10, [2]), "to [2]"],
  ]);
});

Deno.test("axes, ranges and widths are whole numbers, or arrays of them", () => {
  assertNamed([
    [() => x.reshape(2, 3), "reshape", "pass an array"],
    [() => x.reshape(["6"]), "reshape"],
    [() => x.expand(["2", 3]), "expand"],
    [() => x.permute(1, 0), "permute"],
    [() => x.flip(0, 1), "[0, 1]", "as an array"],
    [() => x.pad([1, 1]), "pad"],
    [() => x.slice(true), "true"],
    [() => x.slice([]), "[]"],
    [() => x.slice({}), "position"],
    [() => x.slice(Tensor.ones([1])), "indexSelect"],
    [() => x.slice([0, "1"]), '[0, "1"]'],
    [() => x.sliceAssign(0, 1), "ranges 0"],
    [() => x.split("1"), '"1"'],
    [() => x.split(), "undefined"],
    [() => x.sum(true), "true"],
  ]);
});

Deno.test("what is read and computed: tensors are tensors, arrays are arrays", () => {
  assertNamed([
    [() => x.sum(untyped(1n)), "1n"],
    [() => x.pad(untyped(1n)), "1n"],
    [() => image.padReflect(untyped([1n])), "1n"],
    [() => x.lerp(undefined), "lerp"],
    [() => x.lerp(x, null), "lerp", "null"],
    [() => x.interpolate(), "options undefined"],
    [() => x.toHostSync(null), "into null"],
    [() => realizeAll(untyped([null])), "realize", "null"],
    [() => N.nll(x), "undefined"],
    [() => N.crossEntropy(x, null), "null"],
    [() => new N.ModuleList(null), "modules null"],
    [() => new N.ModuleDict(null), "modules null"],
  ]);
});

Deno.test("windows and kernels must be given, as numbers", () => {
  assertNamed([
    [() => image.maxPool2d(), "kernel undefined"],
    [() => image.adaptiveAvgPool2d([2]), "size [2]"],
    [() => image.conv2d(image, { stride: null }), "stride null"],
    [() => image.conv2d(image, { bias: [1] }), "bias [1]"],
  ]);
});

Deno.test("gradients: flags are booleans, functions are functions", () => {
  assertNamed([
    [() => Tensor.ones([1]).requiresGrad = untyped("no"), '"no"'],
    [() => untyped(leaf.sum()).backward({ retainGraph: 1 }), "retainGraph 1"],
    [() => untyped(leaf.sum()).backward({}, { retainGraph: true }), "options behind it"],
    [() => untyped(leaf.sum()).backward([1]), "options behind it"],
    [() => untyped(leaf.sum()).backward(undefined, { retainGraph: 1 }), "retainGraph 1"],
    [() => untyped(enableGrad)(), "undefined"],
    [() => untyped(detectAnomaly)(), "undefined"],
    [() => untyped(withDevice)("cpu"), "undefined"],
    [() => untyped(realizeAll)(x), "a Tensor", "pass an array"],
  ]);
});

Deno.test("layers: sizes are numbers, and given", () => {
  assertNamed([
    [() => new N.Linear(2), "outFeatures undefined"],
    [() => new N.Conv2d(1, 2), "kernel undefined"],
    [() => new N.Conv2d(1, 2, 0), "kernel 0"],
    [() => new N.Conv2d(1, 2, 3, { padding: "same" }), 'padding "same"'],
    [() => new N.LayerNorm(), "shape undefined"],
    [() => new N.LayerNorm([]), "shape []"],
    [() => new N.Dropout({ p: 0.5 }), "{ p }"],
    [() => new N.ELU({}), "alpha"],
    [() => new N.MaxPool2d(), "kernel undefined"],
    [() => model.loadStateDict(), "undefined", "stateDict()"],
    [() => model.loadStateDict({ weight: [1], bias: [1] }), "stateDict()"],
  ]);
});

Deno.test("optimizers, schedules and scalers: parameters are arrays, rates are numbers", () => {
  assertNamed([
    [() => new O.SGD(model), "a Linear", "model.parameters()"],
    [() => new O.SGD(leaf), "a Tensor"],
    [() => new O.SGD(), "undefined"],
    [() => new O.SGD([1]), "[1]"],
    [() => new O.SGD([{ parameters: model }]), "a Linear"],
    [() => untyped(sgd).lr = "1", '"1"'],
    [() => untyped(sgd).loadStateDict(), "undefined"],
    [() => new O.StepLR(sgd), '"stepSize"'],
    [() => new O.StepLR(model, { stepSize: 1 }), "a Linear", "pass an optimizer"],
    [() => new O.MultiStepLR(sgd, { milestones: 3 }), "milestones 3"],
    [() => new O.LambdaLR(sgd, 0.9), "factor 0.9"],
    [() => new O.SequentialLR(sgd, [1], []), "schedulers [1]"],
    [() => new O.SequentialLR(sgd, [], ["5"]), '["5"]'],
    [() => new O.LinearLR(sgd).loadStateDict({}), '"time"'],
    [() => new O.ReduceLROnPlateau(sgd).step(x), "a Tensor", "item()"],
    [() => O.clipGradNorm(model, 1), "a Linear"],
    [() => O.clipGradNorm([1], 1), "[1]"],
    [() => O.clipGradNorm([leaf]), "maxNorm undefined"],
    [() => A.autocast("float16"), "undefined"],
    [() => new A.GradScaler().step(model), "a Linear"],
  ]);
});

Deno.test("data, files, memory: what is not what is due is named", () => {
  assertNamed([
    [() => new DataLoader(samples, { workers: untyped(4) }), "workers 4", "module"],
    [() => randomSplit(untyped(5), [1]), "5", "dataset"],
    [() => randomSplit(samples, untyped(0.5)), "parts 0.5"],
    [() => new Subset(samples, untyped(3)), "indices 3"],
    [() => decodeNpy(untyped(undefined)), "bytes undefined", "typed array"],
    [() => decodeIdx(untyped(null)), "bytes null"],
    [() => decodeSafetensors(untyped("x")), 'bytes "x"'],
    [() => encodeNpy(untyped(undefined)), "array undefined"],
    [() => encodeNpy(untyped({ data: [1], shape: [1], dtype: "float32" })), "data [1]"],
    [() => encodeSafetensors(untyped({ w: null })), '"w"', "array null"],
    [() => encodeSafetensors(untyped(undefined)), "arrays undefined"],
    [() => stackSamples(untyped([null])), "a sample null"],
    [() => stackSamples(untyped(undefined)), "samples undefined"],
    [() => manualSeed(untyped(1n)), "1n"],
    [() => snapshotHandles(untyped(undefined)), "device undefined"],
    [() => attach(untyped(null)), "snapshot null"],
    [() => getPinnedPool(untyped(undefined)), "undefined", "a CommandQueue"],
    [() => isIntegratedGpu(untyped({})), "a CommandQueue"],
    [() => new BufferPool(untyped(undefined)), "undefined", "a Context"],
    [() => new SlabPool(untyped({})), "a Context"],
    [() => new HostPool().trim(untyped("1")), 'bytes "1"'],
    [() => new HostPool().limitBytes = -1, "limitBytes -1"],
    [() => new HostPool().limitBytes = NaN, "limitBytes NaN"],
    [() => new FaultPool(new HostPool()).limitBytes = untyped("1GiB"), 'limitBytes "1GiB"'],
    [() => new (untyped(GuardPool))(new HostPool()), "access undefined", "forHost"],
    [() => new FaultPool(new HostPool()).failAllocation(0), "nth 0"],
    [() => memory.onPressure(untyped(1)), "callback 1"],
    [() => memory.report(untyped(undefined)), "path undefined"],
    [() => profiler.trace(untyped(7)), "path 7"],
  ]);
});

Deno.test("what PyTorch's users write and means one thing works", () => {
  onCPU(() => {
    assertEquals(x.reshape([3, -1]).shape, [3, 2]);
    assertEquals(x.transpose(0).shape, [3, 2]);
    assertEquals(x.sum([0, 1]).shape, []);
    assertEquals(new nn.LayerNorm(3).forward(x).shape, [2, 3]);
    assertEquals(x.slice([1]).shape, [1, 3]);
  });
});
