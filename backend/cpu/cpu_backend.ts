/**
 * The built-in backend: no driver, no native code. It runs the kernels that OpenCL would run, written
 * out as JavaScript over typed arrays, one after another, as they are launched.
 */
import { setImmediate } from "node:timers";
import { DeviceMemory, type HostBuffer, HostPool, registerDeviceMemory } from "../../memory/mod.ts";
import type { Backend, Block, Capabilities, Launch } from "../backend.ts";
import { countBuild, countLaunch, countTransfer } from "../counters.ts";
import type { DeviceHandle } from "../device_handle.ts";
import {
  type DType,
  dtypes,
  fromBfloat16Bits,
  toBfloat16Bits,
  type TypedArray,
} from "../graph/dtype.ts";
import { installLifecycle } from "../lifecycle/install.ts";
import { interruptible } from "../lifecycle/interruption.ts";
import { opName, type Parameter } from "../graph/emit.ts";
import type { Kernel } from "../graph/kernel.ts";
import { indexError } from "../index_error.ts";
import { type GeneratedScript, generateScript, generateSpecialScript } from "./codegen.ts";
import * as scalar from "./scalar.ts";

const TURN_MS = 10;

type Compiled = (
  inputs: readonly TypedArray[],
  outputs: readonly TypedArray[],
  parameters: readonly (number | bigint)[],
) => void;

/** Runs kernels as generated JavaScript. */
export class CPUBackend implements Backend {
  readonly name = "cpu";
  readonly device: DeviceHandle;
  readonly capabilities: Capabilities = {
    dtypes: new Set(Object.keys(dtypes) as DType[]),
    fp16: false,
    unifiedMemory: true,
  };
  readonly memory: DeviceMemory<HostBuffer>;
  readonly #compiled = new Map<string, Compiled>();
  #error: RangeError | null = null;
  #turned = 0;

  constructor(device: DeviceHandle) {
    this.device = device;
    this.memory = new DeviceMemory(new HostPool(), { name: device.deviceName });
    registerDeviceMemory(device, this.memory);
    installLifecycle();
  }

  write(block: Block, data: Uint8Array, offset = 0): void {
    if (data.byteLength > 0) bytesOf(block).set(data, offset);
    countTransfer(data.byteLength);
  }

  async read(block: Block, into: Uint8Array, offset = 0): Promise<void> {
    await interruptible(this.#turn());
    this.readSync(block, into, offset);
  }

  /** Nothing waits here: without a turn of the event loop no signal and no timer would be heard. */
  #turn(): Promise<void> {
    if (performance.now() - this.#turned < TURN_MS) return Promise.resolve();
    return new Promise((resolve) =>
      setImmediate(() => {
        this.#turned = performance.now();
        resolve();
      })
    );
  }

  readSync(block: Block, into: Uint8Array, offset = 0): void {
    const error = this.#error;
    this.#error = null;
    if (error) throw error;
    if (into.byteLength > 0) into.set(bytesOf(block).subarray(offset, offset + into.byteLength));
    countTransfer(into.byteLength);
  }

  copy(source: Block, destination: Block, nbytes: number): void {
    if (nbytes > 0) bytesOf(destination).set(bytesOf(source).subarray(0, nbytes));
    countTransfer(2 * nbytes);
  }

  prepare(kernels: readonly Kernel[]): Launch[] {
    return kernels.map((kernel) => this.#launch(kernel));
  }

  #launch(kernel: Kernel): Launch {
    const special = kernel.kind === "special";
    const script = special ? generateSpecialScript(kernel) : generateScript(kernel);
    const compiled = this.#compile(script, kernel.inputs.length);
    const outputs = special ? [kernel.output] : kernel.outputs;
    const bytes = outputs.reduce((sum, o) => sum + o.size * dtypes[o.dtype].bytes, 0);
    return {
      name: kernel.label,
      source: script.body,
      bytes,
      run: (reads, writes) => {
        compiled(
          reads.map((block, k) => viewOf(block, kernel.inputs[k]!)),
          writes.map((block, k) => viewOf(block, outputs[k]!.dtype)),
          script.parameters.map(parameterValue),
        );
        countLaunch(bytes);
      },
    };
  }

  #compile(script: GeneratedScript, inputs: number): Compiled {
    const known = this.#compiled.get(script.body);
    if (known) return known;
    const compiled = compile(script, inputs, this.#checkedIndex);
    countBuild();
    this.#compiled.set(script.body, compiled);
    return compiled;
  }

  /** An index out of range is remembered, and thrown at the next read, as on a device. */
  readonly #checkedIndex = (value: number, size: number, op: number): number => {
    if (value >= 0 && value < size) return value;
    this.#error ??= indexError(opName(op), value, size);
    return 0;
  };

  async finish(): Promise<void> {}

  finishSync(): void {}

  dispose(): void {
    this.#compiled.clear();
    this.memory.destroy();
  }
}

function bytesOf(block: Block): Uint8Array<ArrayBuffer> {
  return block.buffer.bytes;
}

function viewOf(block: Block, dtype: DType): TypedArray {
  const { view, bytes } = dtypes[dtype];
  const { buffer, byteOffset } = bytesOf(block);
  return view(buffer, byteOffset, block.nbytes / bytes);
}

function parameterValue(p: Parameter): number | bigint {
  if (p.kind === "stream") return p.stream.value;
  return p.kind === "constant" && p.dtype === "int64" ? BigInt(Math.trunc(p.value)) : p.value;
}

/** NaN sorts last. */
function compare(a: number | bigint, b: number | bigint): number {
  if (a < b) return -1;
  if (a > b) return 1;
  return Number(a !== a) - Number(b !== b);
}

const helpers = { ...scalar, compare, fromBfloat16Bits, toBfloat16Bits };

function compile(
  script: GeneratedScript,
  inputs: number,
  checkedIndex: (value: number, size: number, op: number) => number,
): Compiled {
  const reads = Array.from({ length: inputs }, (_, k) => `a${k}`).join();
  const outputs = new Set(script.body.match(/\bo\d+\b/g));
  const writes = Array.from({ length: outputs.size }, (_, k) => `o${k}`).join();
  const parameters = script.parameters.map((_, k) => `p${k}`).join();
  const names = Object.keys(helpers).join();
  const make = new Function(
    "helpers",
    "checkedIndex",
    `"use strict"; const { ${names} } = helpers;
return ([${reads}], [${writes}], [${parameters}]) => {\n${script.body}\n};`,
  ) as (h: typeof helpers, c: typeof checkedIndex) => Compiled;
  return make(helpers, checkedIndex);
}
