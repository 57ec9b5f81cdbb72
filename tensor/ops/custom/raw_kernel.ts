/**
 * OpenCL C of the user's own as an operation on tensors.
 *
 * This folder (`custom/`) has operations that users write: kernels and gradients. It imports
 * `creation/`, `execution/` and `core/`.
 */
import {
  type CustomCall,
  type CustomKernel,
  declarationOf,
  type DeviceHandle,
  type DType,
  isEager,
  isFloat,
  manager,
  type MatrixProgram,
  Node,
  type Shape,
  sizeOf,
  type TypedArray,
} from "../../../backend/internal.ts";
import { newGradFn, sameDevice } from "../../core/apply.ts";
import type { Operation } from "../../core/calls.ts";
import type { UserGradient } from "../../core/grad_fn.ts";
import { observedCall } from "../../core/operations.ts";
import { checkedShape } from "../creation/tensor_options.ts";
import { gradientsOfUser } from "./custom_gradient.ts";
import { isGradEnabled } from "../../core/modes/grad_mode.ts";
import { checkOptions, requireValue, type Rules, shown, takes } from "../../core/rules/options.ts";
import { checkArguments, checkRange } from "./raw_arguments.ts";
import { realizeAll } from "../../execution/realization.ts";
import type { TensorsOf } from "../../core/arguments.ts";
import type { Tensor } from "../../core/mod.ts";
import { requireType } from "../../core/rules/supported_types.ts";
import { isTensor, makeTensor, nodeOf, stateOf } from "../../core/internals.ts";

/** A result of a kernel, before there is one. */
export interface RawOutput {
  /** Its shape. */
  readonly shape: Shape;
  /** Its element type. */
  readonly dtype: DType;
}

/** Elements that a `cpu` function writes: numbers, or bigints where they are int64. */
export interface RawElements {
  /** Number of elements. */
  readonly length: number;
  /** The element at an index. */
  // deno-lint-ignore no-explicit-any -- numbers, or bigints: the output's type says which
  [index: number]: any;
}

/**
 * As many as the kernel has of them. Its source says how many that is, which TypeScript does not read: the
 * first eight count as there, so that `[x, y]` needs no `!`.
 */
export type RawParts<T> = [T, T, T, T, T, T, T, T, ...T[]];

/** Result of a kernel: a tensor, or one for each output in an array. */
export type RawResult<Output> = Output extends readonly unknown[] ? TensorsOf<Output> : Tensor;

/** Options of {@linkcode rawKernel}. */
export interface RawKernelOptions<Output = RawOutput> {
  /**
   * OpenCL C with `kernel void name(...)`. Its parameters are the inputs and then the outputs, global
   * pointers to contiguous elements in row-major order, then the numbers of the call. bfloat16 is
   * `ushort`, bool is `uchar`.
   */
  source: string;
  /** Options for the compiler, such as "-DT=float"; none by default. */
  buildOptions?: string;
  /** Result for inputs like these: one, or an array of several. */
  output: (...inputs: Tensor[]) => Output;
  /** Work-items in up to three dimensions; default: one for each element of the first output. */
  global?: (
    inputs: RawParts<Tensor>,
    outputs: RawParts<RawOutput>,
    numbers: RawParts<number>,
  ) => number[];
  /** Work-items of a group in each dimension; default: as the driver likes. */
  local?: number[];
  /** The same for the built-in backend; bfloat16 is a Float32Array here. */
  cpu?: (
    inputs: RawParts<TypedArray>,
    outputs: RawParts<RawElements>,
    numbers: RawParts<number>,
  ) => void;
  /**
   * The gradients of the inputs, null where there is none; without it, `backward` through the kernel
   * is an error. An output that was not used has a gradient of zeros.
   */
  gradient?: (
    gradients: RawParts<Tensor>,
    inputs: RawParts<Tensor>,
    outputs: RawParts<Tensor>,
    numbers: RawParts<number>,
  ) => (Tensor | null)[];
}

const rules: Rules<RawKernelOptions<RawOutput | readonly RawOutput[]>> = {
  source: takes.text,
  buildOptions: takes.text,
  output: takes.callback,
  global: takes.callback,
  local: {
    takes: "an array of one to three whole numbers of at least 1",
    accepts: (value) =>
      Array.isArray(value) && value.length >= 1 && value.length <= 3 &&
      value.every(takes.count.accepts),
  },
  cpu: takes.callback,
  gradient: takes.callback,
};

/** A kernel with what its caller said of it. */
interface Defined {
  readonly kernel: CustomKernel;
  readonly options: RawKernelOptions<RawOutput | readonly RawOutput[]>;
}

let made = 0;

/**
 * A kernel of one's own as an operation on tensors: lazy like any other, recorded for `backward` by
 * its `gradient`, part of {@linkcode compile}, and in traces by its name. It is called with its input
 * tensors and then its numbers. Inputs are contiguous where it reads them, whatever views they are; it
 * must write every element of its outputs, and nothing else. Outputs that nobody reads get memory all
 * the same; outputs that are asked for one after the other are computed by a launch each
 * ({@linkcode realizeAll} asks for several at once).
 *
 * @param name The kernel's name in the source; also what traces and errors call it.
 * @param options The source and what it gives, see {@linkcode RawKernelOptions}.
 * @returns The operation: gives a tensor, or as many as `output` says in an array.
 * @throws {TypeError} When the source has no such kernel or declares what no tensor is; when called
 * with too few or too many arguments; on the built-in backend without `cpu`.
 * @throws {DTypeError} When an argument's type is not the declared one.
 * @throws {ShapeError} When `output` gives an impossible shape.
 * @throws {RangeError} When there are no work-items, or groups do not divide them.
 * @throws {KernelBuildError} When it is computed and the source does not compile.
 *
 * @example The same on OpenCL and without it
 * ```ts
 * import { rawKernel, Tensor } from "@netcl/netcl";
 * import { assertEquals } from "@std/assert";
 *
 * const scaledSquare = rawKernel("scaledSquare", {
 *   source: `kernel void scaledSquare(global const float* x, global float* y, float s) {
 *     const size_t i = get_global_id(0);
 *     y[i] = s * x[i] * x[i];
 *   }`,
 *   output: (x) => ({ shape: x.shape, dtype: x.dtype }),
 *   cpu: ([x], [y], [s]) => {
 *     for (let i = 0; i < y.length; i++) y[i] = s * Number(x[i]) ** 2;
 *   },
 *   gradient: ([g], [x], _outputs, [s]) => [g.mul(x).mul(2 * s)],
 * });
 * const x = Tensor.fromHost([1, -2], { requiresGrad: true });
 * const y = scaledSquare(x, 3);
 * y.sum().backward();
 * assertEquals(await y.toArray(), [3, 12]);
 * assertEquals(await x.grad!.toArray(), [6, -12]);
 * ```
 */
export function rawKernel<Output extends RawOutput | readonly RawOutput[] | []>(
  name: string,
  options: RawKernelOptions<Output>,
): (...args: (Tensor | number)[]) => RawResult<Output> {
  const call = kernelOperation(name, options, null);
  return (...args) => call(...args) as RawResult<Output>;
}

/**
 * See {@linkcode rawKernel}; kernels of the library, which say what they do with leading axes.
 *
 * @param batched The inputs that have leading axes: see {@linkcode CustomKernel}.
 * @param program The same as a program of matrices.
 */
export function kernelOperation(
  name: string,
  options: RawKernelOptions<RawOutput | readonly RawOutput[]>,
  batched: CustomKernel["batched"],
  program: MatrixProgram | null = null,
): (...args: (Tensor | number)[]) => Tensor | Tensor[] {
  requireValue("make a kernel", "name", name, {
    takes: "an identifier of C",
    accepts: (value) => typeof value === "string" && /^[A-Za-z_]\w*$/.test(value),
  });
  checkOptions(`make the kernel ${name}`, options, rules, ["source", "output"]);
  const { source, buildOptions = "", cpu = null } = options;
  const declaration = source.trim() === "" ? null : declarationOf(name, source, buildOptions);
  const kernel: CustomKernel = {
    batched,
    program,
    name,
    id: made++,
    source,
    buildOptions,
    declaration,
    cpu: cpu as CustomKernel["cpu"],
  };
  const defined: Defined = { kernel, options };
  const call: Operation = (...args) => callKernel(defined, args);
  return (...args) => observedCall("compute", call, undefined, args) as Tensor | Tensor[];
}

function callKernel(defined: Defined, args: readonly unknown[]): Tensor | Tensor[] {
  const { kernel, options } = defined;
  const { inputs, numbers } = separated(kernel.name, args);
  sameDevice(kernel.name, inputs);
  const device = inputs[0]?.device ?? manager.active;
  if (inputs.length < options.output.length) {
    throw new TypeError(
      `Cannot call the kernel ${kernel.name} with ${inputs.length} tensors: its output() takes ` +
        `${options.output.length}; pass its input tensors, then its numbers`,
    );
  }
  const given = options.output(...inputs);
  const outputs = outputsFrom(kernel.name, Array.isArray(given) ? given : [given], device);
  checkArguments(kernel, inputs, outputs, numbers, device);
  const global = options.global?.(parts(inputs), parts(outputs), parts(numbers)) ??
    [sizeOf(outputs[0]!.shape)];
  const local = options.local ?? null;
  checkRange(kernel.name, outputs, global, local);
  const call: CustomCall = { kernel, numbers, outputs, global, local };
  const results = resultsOf(defined, call, inputs, device);
  return Array.isArray(given) ? results : results[0]!;
}

/** A copy for a function of the user, which may change it. */
function parts<T>(values: readonly T[]): RawParts<T> {
  return [...values] as RawParts<T>;
}

/** The tensors and the numbers behind them. */
function separated(
  name: string,
  args: readonly unknown[],
): { inputs: Tensor[]; numbers: number[] } {
  const inputs: Tensor[] = [], numbers: number[] = [];
  args.forEach((value, k) => {
    if (isTensor(value) && numbers.length === 0) inputs.push(value);
    else if (typeof value === "number") numbers.push(value);
    else {
      throw new TypeError(
        `Cannot call the kernel ${name} with ${
          isTensor(value) ? `${value} behind a number` : shown(value)
        } as argument ${k}: pass its input tensors, then its numbers`,
      );
    }
  });
  return { inputs, numbers };
}

function outputsFrom(
  name: string,
  outputs: readonly RawOutput[],
  device: DeviceHandle,
): RawOutput[] {
  if (outputs.length === 0) {
    throw new TypeError(`Cannot call the kernel ${name}: output() gave no results; name one`);
  }
  return outputs.map((output) => {
    if (typeof output !== "object" || output === null) {
      throw new TypeError(
        `Cannot call the kernel ${name}: output() gave ${shown(output)}; return { shape, dtype }`,
      );
    }
    const shape = checkedShape(`make with the kernel ${name}`, output.shape);
    requireType(device, output.dtype);
    return { shape, dtype: output.dtype };
  });
}

function resultsOf(
  { kernel, options }: Defined,
  call: CustomCall,
  inputs: Tensor[],
  device: DeviceHandle,
): Tensor[] {
  const nodes = inputs.map((input) => nodeOf(input));
  const results = call.outputs.map(({ shape, dtype }, output) =>
    makeTensor(new Node({ kind: "custom", call, output }, nodes, shape, dtype), device)
  );
  const differentiable = results.filter(({ dtype }) => isFloat(dtype));
  if (
    isGradEnabled() && differentiable.length > 0 && inputs.some((input) => input.requiresGrad)
  ) {
    const { gradient } = options;
    const user: UserGradient = {
      ask: (given, inputs, results) =>
        gradient!(parts(given), parts(inputs), parts(results), parts(call.numbers)),
      resultsOf: (_, gradients) => {
        if (!gradient) throw noGradient(kernel.name);
        const gradientOf = (result: Tensor): Tensor =>
          gradients[differentiable.indexOf(result)] ?? result.zerosLike();
        return { results: [...results], gradients: results.map(gradientOf) };
      },
      gradientsIn: (given) => gradientsOfUser(kernel.name, given, inputs),
    };
    const outputs = differentiable.map((result) => stateOf(result).order);
    const shared = newGradFn(kernel.name, inputs, () => [], { user, outputs });
    for (const result of differentiable) stateOf(result).record(shared);
  }
  if (isEager()) realizeAll(results);
  return results;
}

function noGradient(name: string): Error {
  return new Error(
    `Cannot go backward through the kernel ${name}: it has no gradient; pass gradient: ` +
      `(gradients, inputs, outputs, numbers) => [...] to rawKernel("${name}", ...), or detach() ` +
      `its inputs`,
  );
}
