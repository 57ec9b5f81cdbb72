/** Arguments of a user's kernel, held against what its source declares. */
import {
  type CustomKernel,
  declaredTypes,
  type DeviceHandle,
  type DType,
  type KernelParameter,
  type Shape,
  sizeOf,
} from "../../../backend/internal.ts";
import { dtypeError } from "../../core/rules/errors.ts";
import { shown } from "../../core/rules/options.ts";

interface Typed {
  readonly shape: Shape;
  readonly dtype: DType;
}

/**
 * @throws {TypeError} When the device cannot run the kernel, or the arguments are not as many as declared.
 * @throws {DTypeError} When a tensor has another type than its parameter.
 * @throws {RangeError} When a number is none of its parameter's type.
 */
export function checkArguments(
  kernel: CustomKernel,
  inputs: readonly Typed[],
  outputs: readonly Typed[],
  numbers: readonly number[],
  device: DeviceHandle,
): void {
  requireCode(kernel, device);
  const { name, declaration } = kernel;
  if (declaration === null) return;
  const { pointers, numbers: scalars } = declaration;
  if (pointers.length !== inputs.length + outputs.length) {
    throw new TypeError(
      `Cannot call the kernel ${name} with ${counted(inputs.length, "tensor")}: it declares ` +
        `${counted(pointers.length, "pointer")} (${texts(pointers)}) for its inputs and ` +
        `${counted(outputs.length, "output")}`,
    );
  }
  if (scalars.length !== numbers.length) {
    throw new TypeError(
      `Cannot call the kernel ${name} with ${counted(numbers.length, "number")}: it declares ` +
        `${scalars.length === 0 ? "none" : `${scalars.length} (${texts(scalars)})`}`,
    );
  }
  inputs.forEach(({ dtype }, k) => checkType(name, `input ${k}`, dtype, pointers[k]!));
  outputs.forEach(({ dtype }, k) => {
    const parameter = pointers[inputs.length + k]!;
    if (parameter.isConst) {
      throw new TypeError(
        `Cannot call the kernel ${name}: it declares its output ${k} as "${parameter.text}", which ` +
          `it cannot write; inputs come first, then outputs, which are not const`,
      );
    }
    checkType(name, `output ${k}`, dtype, parameter);
  });
  numbers.forEach((value, k) => checkNumber(name, value, scalars[k]!));
}

function requireCode({ name, declaration, cpu }: CustomKernel, device: DeviceHandle): void {
  if (device.backend === "cl") {
    if (declaration !== null) return;
    throw new TypeError(
      `Cannot call the kernel ${name} on ${device}: its source is empty; pass OpenCL C`,
    );
  }
  if (cpu === null) {
    throw new TypeError(
      `Cannot call the kernel ${name} on the built-in backend: it has no function for it; pass ` +
        `cpu: (inputs, outputs, numbers) => { ... } to rawKernel("${name}", ...)`,
    );
  }
}

function checkType(kernel: string, what: string, dtype: DType, parameter: KernelParameter): void {
  const { type, text } = parameter;
  // A type of the source's own, such as a struct, is the caller's business.
  if (type === null || declaredTypes[dtype].includes(type)) return;
  const [wanted] = Object.entries(declaredTypes).find(([, types]) => types.includes(type)) ?? [];
  throw dtypeError(kernel)`
    Cannot call the kernel ${kernel} with ${what} of ${dtype}: it declares "${text}"${
    wanted ? `, which is ${wanted}` : ""
  }; cast() the tensor, or declare
    ${declaredTypes[dtype][0]}`;
}

/** Ranges of OpenCL C's whole numbers. */
const ranges: Readonly<Record<string, readonly [least: number, most: number]>> = {
  char: [-128, 127],
  uchar: [0, 255],
  short: [-32768, 32767],
  ushort: [0, 65535],
  int: [-(2 ** 31), 2 ** 31 - 1],
  uint: [0, 2 ** 32 - 1],
  long: [-(2 ** 63), 2 ** 63 - 1024],
  ulong: [0, 2 ** 64 - 2048],
};

function checkNumber(kernel: string, value: number, { type, text }: KernelParameter): void {
  const range = ranges[type!];
  if (!range || Number.isInteger(value) && value >= range[0] && value <= range[1]) return;
  throw new RangeError(
    `Cannot call the kernel ${kernel} with the number ${value}: it declares "${text}"; pass a ` +
      `whole number from ${range[0]} to ${range[1]}`,
  );
}

/** @throws {RangeError} Unless there are work-items, and groups divide them. */
export function checkRange(
  kernel: string,
  outputs: readonly Typed[],
  global: readonly number[],
  local: readonly number[] | null,
): void {
  const isRange = Array.isArray(global) && global.length >= 1 && global.length <= 3 &&
    global.every((n) => Number.isSafeInteger(n) && n >= 0);
  if (!isRange) {
    throw new RangeError(
      `Cannot call the kernel ${kernel} with ${shown(global)} work-items: global() gives one to ` +
        `three whole numbers`,
    );
  }
  if (global.includes(0) && outputs.some(({ shape }) => sizeOf(shape) > 0)) {
    throw new RangeError(
      `Cannot call the kernel ${kernel} with ${
        shown(global)
      } work-items: nobody would write its outputs; pass global: () => [...]`,
    );
  }
  if (local === null) return;
  if (local.length === global.length && global.every((n, k) => n % local[k]! === 0)) return;
  throw new RangeError(
    `Cannot call the kernel ${kernel} with ${shown(global)} work-items in groups of ${
      shown(local)
    }: groups divide them in each dimension; round up in global(), and have the kernel check its index`,
  );
}

function texts(parameters: readonly KernelParameter[]): string {
  return parameters.map(({ text }) => text).join(", ");
}

function counted(n: number, noun: string): string {
  return `${n} ${noun}${n === 1 ? "" : "s"}`;
}
