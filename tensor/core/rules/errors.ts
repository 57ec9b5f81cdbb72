/** Errors about tensors: their data, and the one way to write them. */
import { spoken } from "../../../ffi/host/wording.ts";
import {
  DeviceHandle,
  type DType,
  dtypes,
  formatShape,
  type Shape,
} from "../../../backend/internal.ts";

export { DisposedError } from "../../../ffi/mod.ts";

/** Shapes that do not fit: names the operation and the shapes, in the message and as fields. */
export class ShapeError extends RangeError {
  /** The method, function or layer that was called, such as "matmul" or "Linear". */
  readonly operation: string;
  /** The shapes that the message names, in its order. */
  readonly shapes: readonly Shape[];
  /** The axis that was asked for; undefined where the operation takes none. */
  readonly axis: number | undefined;

  /**
   * Made by operations.
   *
   * @param message The sentence: which shapes do not fit, and the remedy.
   * @param fields The same as data.
   */
  constructor(message: string, fields: Pick<ShapeError, "operation" | "shapes" | "axis">) {
    super(message);
    this.name = "ShapeError";
    this.operation = fields.operation;
    this.shapes = fields.shapes;
    this.axis = fields.axis;
  }
}

/** Element types that an operation does not take: names the operation and the types. */
export class DTypeError extends TypeError {
  /** The method, function or layer that was called, such as "matmul" or "Linear". */
  readonly operation: string;
  /** The element types that the message names, in its order. */
  readonly dtypes: readonly DType[];

  /**
   * Made by operations.
   *
   * @param message The sentence: which types are not taken, and the remedy.
   * @param fields The same as data.
   */
  constructor(message: string, fields: Pick<DTypeError, "operation" | "dtypes">) {
    super(message);
    this.name = "DTypeError";
    this.operation = fields.operation;
    this.dtypes = fields.dtypes;
  }
}

/** Tensors of two devices where one is needed: names the operation and the devices. */
export class DeviceError extends TypeError {
  /** The method, function or layer that was called, such as "matmul" or "Linear". */
  readonly operation: string;
  /** The devices that the message names, in its order. */
  readonly devices: readonly DeviceHandle[];

  /**
   * Made by operations.
   *
   * @param message The sentence: which tensor lies where, and the remedy.
   * @param fields The same as data.
   */
  constructor(message: string, fields: Pick<DeviceError, "operation" | "devices">) {
    super(message);
    this.name = "DeviceError";
    this.operation = fields.operation;
    this.devices = fields.devices;
  }
}

/** A tag of a template: the message is the text, and its values fill the fields of the error. */
type ErrorTag<E> = (text: TemplateStringsArray, ...values: readonly unknown[]) => E;

/**
 * Writes a {@linkcode ShapeError}: `shapeError("concat", axis)` followed by a template. Shapes, or
 * lists of shapes, in the template are the error's shapes; pass other lists as text.
 *
 * @param operation The operation, or the phrase that messages call it by.
 * @param axis The axis, where one was asked for.
 */
export function shapeError(operation: string, axis?: number): ErrorTag<ShapeError> {
  return (text, ...values) => {
    const shapes = values.flatMap((value) => isShape(value) ? [value] : shapesIn(value) ?? []);
    return new ShapeError(sentence(operation, text, values), {
      operation: nameIn(operation),
      shapes,
      axis,
    });
  };
}

/** Writes a {@linkcode DTypeError}: types, or lists of types, in the template are the error's. */
export function dtypeError(operation: string): ErrorTag<DTypeError> {
  return (text, ...values) =>
    new DTypeError(sentence(operation, text, values), {
      operation: nameIn(operation),
      dtypes: values.flat().filter(isDType),
    });
}

/** Writes a {@linkcode DeviceError}: devices in the template are the error's. */
export function deviceError(operation: string): ErrorTag<DeviceError> {
  return (text, ...values) =>
    new DeviceError(sentence(operation, text, values), {
      operation: nameIn(operation),
      devices: values.filter((value) => value instanceof DeviceHandle),
    });
}

/** The message: lines of the template are joined by spaces, shapes and lists are shown. */
function sentence(
  operation: string,
  text: TemplateStringsArray,
  values: readonly unknown[],
): string {
  const words = text.map((part) => part.replace(/\s*\n\s*/g, " "));
  const message = words.map((part, k) =>
    k === 0 ? part.trimStart() : shownValue(values[k - 1]) + part
  ).join("");
  return spoken(message, operation);
}

function shownValue(value: unknown): string {
  if (isShape(value)) return formatShape(value);
  return shapesIn(value)?.map(formatShape).join(" and ") ??
    (Array.isArray(value) ? value.join(" and ") : String(value));
}

/** The name in a phrase: "run Linear" is Linear, "take the mean" mean, "go backward" backward. */
function nameIn(operation: string): string {
  return operation.replace(/^(run|compute|call|go|take the) | (of|on|from|by|with|to|in)$/g, "");
}

function isShape(value: unknown): value is Shape {
  return Array.isArray(value) && value.every((n) => typeof n === "number");
}

/** The value as a list of shapes; null where it is none. */
function shapesIn(value: unknown): readonly Shape[] | null {
  return Array.isArray(value) && value.length > 0 && value.every(isShape) ? value : null;
}

/** True for the name of an element type. */
export function isDType(value: unknown): value is DType {
  return typeof value === "string" && Object.hasOwn(dtypes, value);
}
