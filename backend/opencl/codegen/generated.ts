/** A kernel's text with its parameter list, and what a launch must know of it. */
import { type Dialect, Emitter, type Parameter } from "../../codegen/emit.ts";
import type { DType } from "../../graph/dtype.ts";
import { needsWideIndices } from "../../kernel/index_range.ts";
import type { LoopKernel } from "../../kernel/kernel.ts";
import { openclDialect } from "./dialect.ts";
import type { Target } from "../../kernel/target.ts";
import { computeType, storageType } from "./types.ts";

/** A kernel's text and how it is launched. */
export interface Generated {
  /** The parameter list and body: equal texts are one kernel. */
  readonly source: string;
  /** The element types of the buffers: inputs, outputs, then scratch. */
  readonly buffers: readonly DType[];
  /** Scalar arguments, behind the buffers. */
  readonly parameters: readonly Parameter[];
  readonly global: readonly number[];
  readonly local: readonly number[];
  /** The kernel reports indices out of range: it takes the error buffer. */
  readonly checksIndices: boolean;
  /** Its index parameters have 64 bits. */
  readonly isWide: boolean;
}

/** How many work-items there are, and how many make a group. */
export interface WorkSize {
  readonly global: readonly number[];
  readonly local: readonly number[];
}

/** What a kernel's text is made of. */
export interface KernelParts extends WorkSize {
  readonly inputs: readonly DType[];
  /** The outputs, then scratch buffers. */
  readonly outputs: readonly DType[];
  readonly parameters: readonly Parameter[];
  readonly checksIndices: boolean;
  readonly isWide: boolean;
  readonly body: string;
}

/**
 * The parameter list and body of a kernel: buffers with the element where each begins (blocks are
 * parts of larger buffers), the error buffer, scalars. Bodies call inputs `a0`, `a1`, ..., outputs
 * `o0`, ..., parameters `p0`, ...; `Index` stands in them for the type of indices: `int`, or `long` in
 * a wide kernel.
 */
export function generated(parts: KernelParts): Generated {
  const { inputs, outputs, body, parameters, checksIndices, isWide, global, local } = parts;
  const buffers = [
    ...inputs.map((dtype, k) => [`global const ${storageType(dtype)}*`, `a${k}`] as const),
    ...outputs.map((dtype, k) => [`global ${storageType(dtype)}*`, `o${k}`] as const),
  ];
  const args = [
    ...buffers.map(([type, name]) => `${type} b${name}`),
    ...(checksIndices ? ["global volatile int* errors"] : []),
    ...buffers.map(([, name]) => `const int s${name}`),
    ...parameters.map((p, k) => `const ${parameterType(p)} p${k}`),
  ];
  const starts = buffers.map(([type, name]) => `  ${type} ${name} = b${name} + s${name};\n`);
  const text = `(${args.join(", ")}) {\n${starts.join("")}${body}\n}`;
  return {
    source: text.replaceAll(/\bIndex\b/g, isWide ? "long" : "int"),
    buffers: [...inputs, ...outputs],
    parameters,
    global,
    local,
    checksIndices,
    isWide,
  };
}

function parameterType(p: Parameter): string {
  if (p.kind === "constant") return computeType(p.dtype);
  return p.kind === "index" ? "Index" : "int";
}

/** A loop kernel's text: `write` appends the body to the emitter, and says how it is launched. */
export function generatedLoop(
  kernel: LoopKernel,
  target: Target,
  write: (emitter: Emitter, dialect: Dialect) => WorkSize,
): Generated {
  const dialect = openclDialect(target.isGpu);
  const emitter = new Emitter(kernel, dialect);
  const size = write(emitter, dialect);
  return generated({
    ...size,
    inputs: kernel.inputs,
    outputs: kernel.outputs.map((o) => o.dtype),
    parameters: emitter.parameters,
    checksIndices: kernel.indirect.length > 0,
    isWide: needsWideIndices(kernel, target.narrowEnd),
    body: emitter.lines.join("\n"),
  });
}
