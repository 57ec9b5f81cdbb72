/**
 * Plain numbers as kernel arguments: converted by the type that the kernel declares.
 *
 * @module
 */
/** The declaration of one argument of a kernel. */
export interface ArgumentInfo {
  /** Its name. */
  readonly name: string;
  /** Its type, as in `"float*"` or `"uint"`. */
  readonly typeName: string;
  /** `"global"`, `"local"`, `"constant"` or `"private"`. */
  readonly addressSpace: "global" | "local" | "constant" | "private";
}

/** Writes a number as the bytes of an argument; they are valid until the next call. */
export type ArgumentEncoder = (value: number | bigint) => ArrayBufferView;

const scratch = new ArrayBuffer(8);

function floating(view: Float32Array | Float64Array | Float16Array): ArgumentEncoder {
  return (value) => {
    view[0] = Number(value);
    return view;
  };
}

function integer(
  view: Int8Array | Uint8Array | Int16Array | Uint16Array | Int32Array | Uint32Array,
  low: number,
  high: number,
): ArgumentEncoder {
  return (value) => {
    const number = Number(value);
    if (!Number.isInteger(number) || number < low || number > high) {
      throw new RangeError(
        `Cannot pass ${value} as a kernel argument: it must be whole, from ${low} to ${high}`,
      );
    }
    view[0] = number;
    return view;
  };
}

function long(view: BigInt64Array | BigUint64Array, low: bigint, high: bigint): ArgumentEncoder {
  return (value) => {
    const whole = BigInt(value); // a fraction throws a RangeError of its own
    if (whole < low || whole > high) {
      throw new RangeError(
        `Cannot pass ${value} as a kernel argument: the range is ${low} to ${high}`,
      );
    }
    view[0] = whole;
    return view;
  };
}

const encoders: { readonly [type: string]: ArgumentEncoder } = {
  float: floating(new Float32Array(scratch, 0, 1)),
  double: floating(new Float64Array(scratch, 0, 1)),
  half: floating(new Float16Array(scratch, 0, 1)),
  char: integer(new Int8Array(scratch, 0, 1), -(2 ** 7), 2 ** 7 - 1),
  uchar: integer(new Uint8Array(scratch, 0, 1), 0, 2 ** 8 - 1),
  short: integer(new Int16Array(scratch, 0, 1), -(2 ** 15), 2 ** 15 - 1),
  ushort: integer(new Uint16Array(scratch, 0, 1), 0, 2 ** 16 - 1),
  int: integer(new Int32Array(scratch, 0, 1), -(2 ** 31), 2 ** 31 - 1),
  uint: integer(new Uint32Array(scratch, 0, 1), 0, 2 ** 32 - 1),
  long: long(new BigInt64Array(scratch, 0, 1), -(2n ** 63n), 2n ** 63n - 1n),
  ulong: long(new BigUint64Array(scratch, 0, 1), 0n, 2n ** 64n - 1n),
};

/** Conversion of numbers to that argument. Drivers write `unsigned int` as well as `uint`. */
export function encoderOf(info: ArgumentInfo, index: number, kernel: string): ArgumentEncoder {
  const type = info.typeName.replace(/^(?:const\s+)?unsigned\s+/, "u").replace(/^const\s+/, "");
  const encoder = encoders[type];
  if (encoder === undefined) {
    throw new TypeError(
      `Cannot pass a number as argument ${index} (${info.typeName} ${info.name}) of ${kernel}: ` +
        "it is no scalar, pass a buffer, { local } or a typed array",
    );
  }
  return encoder;
}
