/** Reads the declaration of a kernel out of OpenCL C: what its parameters are. */
import type { DType } from "./dtype.ts";

/** A scalar type of OpenCL C. */
export type ScalarType =
  | "char"
  | "uchar"
  | "short"
  | "ushort"
  | "int"
  | "uint"
  | "long"
  | "ulong"
  | "float"
  | "double"
  | "half";

/** A parameter of a kernel. */
export interface KernelParameter {
  /** Its name. */
  readonly name: string;
  /** As it is declared: "global const float*". */
  readonly text: string;
  /** True for memory, false for a number. */
  readonly isPointer: boolean;
  /** True for a pointer that the kernel may not write through. */
  readonly isConst: boolean;
  /** The element's type, of a vector that of its components; null for a type of the source's own. */
  readonly type: ScalarType | null;
}

/** A kernel's parameters, in order: pointers, then numbers. */
export interface KernelDeclaration {
  /** Inputs and then outputs. */
  readonly pointers: readonly KernelParameter[];
  /** Parameters behind them. */
  readonly numbers: readonly KernelParameter[];
}

/** The bytes of a number as an argument of each scalar type. */
const encoders: Readonly<Record<ScalarType, (value: number) => ArrayBufferView>> = {
  char: (value) => Int8Array.of(value),
  uchar: (value) => Uint8Array.of(value),
  short: (value) => Int16Array.of(value),
  ushort: (value) => Uint16Array.of(value),
  int: (value) => Int32Array.of(value),
  uint: (value) => Uint32Array.of(value),
  long: (value) => BigInt64Array.of(BigInt(Math.trunc(value))),
  ulong: (value) => BigUint64Array.of(BigInt(Math.trunc(value))),
  float: (value) => Float32Array.of(value),
  double: (value) => Float64Array.of(value),
  half: (value) => Float16Array.of(value),
};

/** The element types that a kernel may declare for tensors of a type; bfloat16 is its 16 bits. */
export const declaredTypes: Readonly<Record<DType, readonly ScalarType[]>> = {
  float32: ["float"],
  float16: ["half"],
  bfloat16: ["ushort", "short"],
  float64: ["double"],
  int32: ["int", "uint"],
  int64: ["long", "ulong"],
  int16: ["short", "ushort"],
  int8: ["char", "uchar"],
  uint32: ["uint", "int"],
  uint8: ["uchar", "char"],
  bool: ["uchar", "char"],
};

const qualifiers = /\b(?:__)?(?:const|restrict|volatile|global|constant|local|private)\b/g;
const unsignedTypes: Readonly<Record<string, ScalarType>> = {
  char: "uchar",
  short: "ushort",
  int: "uint",
  long: "ulong",
};

/**
 * The declaration of a kernel. Simple macros for types are followed: `#define T float`, `-D T=float`.
 *
 * @param name The kernel.
 * @param source OpenCL C.
 * @param buildOptions What the compiler is told.
 * @throws {TypeError} When the source has no such kernel, or it takes what a tensor or a number is not.
 */
export function declarationOf(
  name: string,
  source: string,
  buildOptions: string,
): KernelDeclaration {
  const code = withoutComments(source);
  const macros = macrosOf(code, buildOptions);
  const list = parametersOf(name, code);
  const parameters = list.map((text) => parameterOf(name, text, macros));
  const first = parameters.findIndex(({ isPointer }) => !isPointer);
  const count = first < 0 ? parameters.length : first;
  const late = parameters.slice(count).find(({ isPointer }) => isPointer);
  if (late) {
    throw new TypeError(
      `Cannot make the kernel ${name}: it declares the pointer "${late.text}" behind the number ` +
        `"${parameters[count]!.text}"; declare inputs, then outputs, then numbers`,
    );
  }
  return { pointers: parameters.slice(0, count), numbers: parameters.slice(count) };
}

function macrosOf(code: string, buildOptions: string): ReadonlyMap<string, string> {
  const macros = new Map<string, string>();
  for (const [, name, value] of code.matchAll(/^\s*#\s*define\s+(\w+)[ \t]+([^\n]+)$/gm)) {
    macros.set(name!, value!.trim());
  }
  for (const [, name, value] of buildOptions.matchAll(/-D\s*(\w+)=("[^"]*"|\S+)/g)) {
    macros.set(name!, value!.replaceAll('"', ""));
  }
  return macros;
}

/** OpenCL C with blanks for its comments: everything else stays in its place. */
export function withoutComments(source: string): string {
  return source.replace(
    /\/\*[\s\S]*?\*\/|\/\/[^\n]*/g,
    (comment) => comment.replace(/[^\n]/g, " "),
  );
}

/** The kernels that a text without comments declares: name and parameters are the groups of each match. */
export function kernelsIn(code: string): RegExpExecArray[] {
  const attributes = String.raw`(?:__attribute__\s*\(\(.*?\)\)\s*)*`;
  const kernels = new RegExp(
    String.raw`\b(?:__)?kernel\s+${attributes}void\s+${attributes}(\w+)\s*\(([^)]*)\)`,
    "gs",
  );
  return [...code.matchAll(kernels)];
}

function parametersOf(name: string, code: string): string[] {
  const found = kernelsIn(code);
  const own = found.find(([, kernel]) => kernel === name);
  if (!own) {
    const others = found.map(([, kernel]) => kernel).join(", ");
    throw new TypeError(
      `Cannot make the kernel ${name}: the source declares ${
        others || "no kernel"
      }; write "kernel void ${name}(...)"`,
    );
  }
  const list = own[2]!.trim();
  return list === "" || list === "void"
    ? []
    : list.split(",").map((text) => text.replace(/\s+/g, " ").trim());
}

function parameterOf(
  kernel: string,
  text: string,
  macros: ReadonlyMap<string, string>,
): KernelParameter {
  const parameter = /(\w+)\s*(?:\[\s*\])?$/.exec(text)?.[1] ?? text;
  const refuse = (what: string): never => {
    throw new TypeError(`Cannot make the kernel ${kernel}: it declares "${text}", ${what}`);
  };
  let declared = text.slice(0, text.lastIndexOf(parameter));
  for (let k = 0; k < 8; k++) {
    declared = declared.replace(/\b[A-Za-z_]\w*\b/g, (word) => macros.get(word) ?? word);
  }
  const isPointer = declared.includes("*") || /\]\s*$/.test(text);
  const type = typeOf(declared.replace(qualifiers, " ").replaceAll("*", " ").trim());
  if (isPointer) {
    if (/\b(?:__)?local\b/.test(declared)) {
      refuse("memory of a work-group; declare that as a local array in its body");
    }
    if (!/\b(?:__)?(?:global|constant)\b/.test(declared)) {
      refuse("a pointer of no address space; tensors are global pointers");
    }
  } else if (type === null || type.isVector) {
    refuse(`which is no number; those are ${Object.keys(encoders).join(", ")}`);
  }
  return {
    name: parameter,
    text,
    isPointer,
    isConst: /\b(?:const|(?:__)?constant)\b/.test(declared),
    type: type?.scalar ?? null,
  };
}

function typeOf(words: string): { scalar: ScalarType; isVector: boolean } | null {
  const [, unsigned, name = "", width] =
    /^(unsigned\b|signed\b)?\s*([a-z]*)(2|3|4|8|16)?(?:\s+int)?$/.exec(words) ?? [];
  const plain = unsigned && name === "" ? "int" : name;
  if (!Object.hasOwn(encoders, plain)) return null;
  const scalar = unsigned === "unsigned" ? unsignedTypes[plain] : plain as ScalarType;
  return scalar === undefined ? null : { scalar, isVector: width !== undefined };
}

/** The bytes of a number as a kernel's scalar argument. */
export function encodeScalar(value: number, type: ScalarType): ArrayBufferView {
  return encoders[type](value);
}
