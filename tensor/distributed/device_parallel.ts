/** One module on several devices of this process: parts of a batch, or a batch for each. */
import {
  backendOf,
  type DeviceHandle,
  formatShape,
  leaveToCollector,
  withDevice,
} from "../../backend/internal.ts";
import { withGradientReceiver } from "../core/gradient_receiver.ts";
import { isTensor } from "../core/internals.ts";
import { shapeError } from "../core/rules/errors.ts";
import { addAccumulationHook } from "../autograd/accumulation_hooks.ts";
import { Tensor } from "../class/tensor.ts";
import type { Module } from "../nn/module/module.ts";
import { DeviceReducer } from "./device_reducer.ts";
import { bytesOf } from "./exchange/bucket.ts";
import { Replicas } from "./replicas.ts";

/** Runs a module, which is on the first device, on all of them. */
export class DeviceParallel<Inputs extends unknown[], Output> implements Disposable {
  readonly #module: Module<Inputs, Output>;
  readonly #devices: readonly DeviceHandle[];
  readonly #replicas: Replicas;
  readonly #reducer: DeviceReducer;
  readonly #hook: Disposable;
  #isHeld = false;
  /** Leaves reached by the last `backward` within `onEach`, in its order. */
  #reached: readonly Tensor[] = [];

  /** Copies the module to the devices behind the first. */
  constructor(
    module: Module<Inputs, Output>,
    devices: readonly DeviceHandle[],
    bucketBytes: number | undefined,
  ) {
    this.#module = module;
    this.#devices = devices;
    for (const device of devices) backendOf(device);
    this.#replicas = new Replicas(module, devices.slice(1));
    const learned = module.parameters().filter(({ requiresGrad }) => requiresGrad);
    this.#reducer = new DeviceReducer(learned, this.#replicas.all, bucketBytes);
    const copies = this.#replicas.all.flatMap(({ copies }) => learned.map((p) => copies.get(p)!));
    this.#hook = addAccumulationHook([...learned, ...copies], (leaves) => {
      if (!this.#isHeld) this.#reducer.reduce(leaves, 1);
      else this.#reached = leaves;
    });
  }

  /** Runs the module on parts of the inputs, and puts the outputs together on the first device. */
  forward(inputs: Inputs): Output {
    const parts = splitBatch(inputs, this.#devices);
    this.#replicas.read();
    this.#replicas.send();
    const outputs = parts.map((part, k): Tensor => {
      const output: unknown = this.#on(k, () => this.#module.forward(...part), "within");
      if (!isTensor(output) || output.ndim === 0) throw notGathered(output);
      // All devices work before anybody waits for one of them.
      return output.realize();
    });
    const gathered = outputs.map((output) => output.to(this.#devices[0]!));
    const result = gathered.length === 1 ? gathered[0]! : Tensor.concat(gathered);
    // Nobody else has these; their values stay where backward needs them.
    for (const tensor of gathered) {
      if (tensor !== result && !outputs.includes(tensor)) tensor.dispose();
    }
    // The module, or a hook, may have kept these in places that nobody can look into.
    for (const tensor of [...parts.flat(), ...outputs]) {
      if (isTensor(tensor) && tensor !== result && !inputs.includes(tensor)) {
        leaveToCollector(backendOf(tensor.device), bytesOf(tensor));
      }
    }
    return result as Output;
  }

  /** Calls `fn` with a batch on each device; gradients that it leaves become their mean. */
  onEach<Batch extends unknown[], R>(
    batches: readonly Batch[],
    fn: (...batch: Batch) => R,
  ): R[] {
    const former = this.#isHeld;
    this.#replicas.read();
    this.#reducer.keepFormer(batches.length);
    this.#isHeld = true;
    try {
      return batches.map((batch, k) => {
        if (k > 0) this.#replicas.send();
        const receiver = this.#reducer.receiverOf(k);
        const result = this.#on(k, () => withGradientReceiver(receiver, () => fn(...batch)));
        this.#reducer.begin(k);
        return result;
      });
    } finally {
      this.#isHeld = former;
      this.#replicas.send();
      this.#reducer.reduce(this.#reached, batches.length);
    }
  }

  #on<R>(k: number, fn: () => R, how: "with" | "within" = "with"): R {
    const run = () => withDevice(this.#devices[k]!, fn);
    return k === 0 ? run() : this.#replicas[how](this.#replicas.all[k - 1]!, run);
  }

  /** Gives the copies' memory back. */
  [Symbol.dispose](): void {
    this.#hook[Symbol.dispose]();
    this.#reducer[Symbol.dispose]();
    this.#replicas[Symbol.dispose]();
  }
}

/** The inputs of each device: tensors in parts of axis 0, as equal as may be; others as they are. */
function splitBatch<Inputs extends unknown[]>(
  inputs: Inputs,
  devices: readonly DeviceHandle[],
): Inputs[] {
  const lengths = new Set(inputs.filter(isTensor).map((tensor) => tensor.shape[0]));
  const [length] = lengths;
  if (lengths.size !== 1 || length === undefined) {
    throw shapeError("split")`
      Cannot split a batch over devices: the inputs have
      ${[...lengths].map((n) => n ?? "no").join(" and ")} samples along axis 0; pass tensors with
      one sample an index, all of one length`;
  }
  const count = Math.max(1, Math.min(devices.length, length));
  const edges = Array.from({ length: count + 1 }, (_, k) => Math.round(k * length / count));
  return Array.from(
    { length: count },
    (_, k) =>
      inputs.map((input) =>
        isTensor(input) ? input.slice([edges[k]!, edges[k + 1]!]).to(devices[k]!) : input
      ) as Inputs,
  );
}

function notGathered(output: unknown): TypeError {
  const given = isTensor(output) ? `a tensor of shape ${formatShape(output.shape)}` : typeof output;
  return new TypeError(
    `Cannot put the outputs of several devices together: forward gave ${given}, not a tensor with one ` +
      "sample an index; use onEachDevice(), which gathers nothing",
  );
}
