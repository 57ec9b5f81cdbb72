/**
 * A kernel's text with its parameter list, and what a launch must know of it.
 *
 * This folder renders statements as OpenCL C: the dialect, primitives as scalars and vectors, accumulators,
 * helpers that a program begins with. It decides nothing about how a kernel is computed (`opencl/templates`
 * does), and imports `backend/codegen`, the kernel IR and dtypes alone.
 */
import { Emitter, type Parameter } from "../../codegen/emit.ts";
import type { DType } from "../../graph/dtype.ts";
import { needsWideIndices } from "../../kernel/index_range.ts";
import type { LoopKernel } from "../../kernel/kernel.ts";
import { openclDialect } from "./dialect.ts";
import type { Target } from "../../kernel/target.ts";
import { computeType, storageType } from "./types.ts";

/** One parameter of a kernel in OpenCL C. */
export interface Argument {
  readonly type: string;
  readonly name: string;
}

/** The parameters of a kernel, in the order in which a launch sets them. */
export interface ArgumentList {
  readonly reads: readonly Argument[];
  readonly writes: readonly Argument[];
  /** The error buffer, where indices are checked. */
  readonly errors: readonly Argument[];
  /** Start of each buffer, in elements: blocks are parts of larger buffers. */
  readonly readStarts: readonly Argument[];
  readonly writeStarts: readonly Argument[];
  readonly numbers: readonly Argument[];
}

/** A kernel's text and how it is launched. */
export interface Generated {
  /** The parameter list and body, as {@linkcode namedKernel} takes them: equal texts are one kernel. */
  readonly source: string;
  /** The same as pieces. */
  readonly args: ArgumentList;
  readonly body: string;
  /** Attributes of the kernel. */
  readonly attributes: string;
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

/** Number of work-items, and number of those in a group. */
export interface WorkSize {
  readonly global: readonly number[];
  readonly local: readonly number[];
  /** As in {@linkcode Generated}; none by default. */
  readonly attributes?: string;
}

/** Parts of a kernel's text. */
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
 * The parameter list and body of a kernel: buffers with the element where each begins, the error buffer,
 * scalars. Bodies call inputs `a0`, `a1`, ..., outputs
 * `o0`, ..., parameters `p0`, ...; `Index` stands in them for the type of indices: `int`, or `long` in
 * a wide kernel.
 */
export function generated(parts: KernelParts): Generated {
  const { inputs, outputs, parameters, checksIndices, isWide, global, local, attributes = "" } =
    parts;
  const typed = (text: string): string => text.replaceAll(/\bIndex\b/g, isWide ? "long" : "int");
  const reads = inputs.map((dtype, k) => buffer(`global const ${storageType(dtype)}*`, `a${k}`));
  const writes = outputs.map((dtype, k) => buffer(`global ${storageType(dtype)}*`, `o${k}`));
  const args: ArgumentList = {
    reads: reads.map(({ block }) => block),
    writes: writes.map(({ block }) => block),
    errors: checksIndices ? [{ type: "global volatile int*", name: "errors" }] : [],
    readStarts: reads.map(({ start }) => start),
    writeStarts: writes.map(({ start }) => start),
    numbers: parameters.map((p, k) => ({
      type: typed(`const ${parameterType(p)}`),
      name: `p${k}`,
    })),
  };
  const moved = [...reads, ...writes].map(({ moved }) => `  ${moved}\n`);
  const body = typed(`${moved.join("")}${parts.body}\n}`);
  return {
    source: kernelText(allArguments(args), body, local, attributes),
    args,
    body,
    attributes,
    buffers: [...inputs, ...outputs],
    parameters,
    global,
    local,
    checksIndices,
    isWide,
  };
}

/** A buffer's parameters, and the pointer that bodies know by `name`. */
function buffer(
  type: string,
  name: string,
): { readonly block: Argument; readonly start: Argument; readonly moved: string } {
  return {
    block: { type, name: `b${name}` },
    start: { type: "const int", name: `s${name}` },
    moved: `${type} ${name} = b${name} + s${name};`,
  };
}

/** All parameters, in the order in which a launch sets them. */
export function allArguments(args: ArgumentList): Argument[] {
  const { reads, writes, errors, readStarts, writeStarts, numbers } = args;
  return [...reads, ...writes, ...errors, ...readStarts, ...writeStarts, ...numbers];
}

/**
 * With more work-items a group, a compiler that is not told their number gives each of them more registers than
 * a processor has for all: NVIDIA's driver refuses the launch then, AMD's any of more than these.
 */
const MAX_UNTOLD_ITEMS = 256;

/**
 * A parameter list with a body, which brings its closing brace; before it, on a line of its own, attributes, and
 * what the compiler is told of the groups' size where it must know.
 */
export function kernelText(
  args: readonly Argument[],
  body: string,
  local: readonly number[],
  attributes: string,
): string {
  const text = `(${args.map(({ type, name }) => `${type} ${name}`).join(", ")}) {\n${body}`;
  const [x, y = 1, z = 1] = local;
  const told = local.reduce((a, b) => a * b, 1) > MAX_UNTOLD_ITEMS
    ? [`__attribute__((reqd_work_group_size(${x}, ${y}, ${z})))`]
    : [];
  const all = [...told, ...attributes ? [attributes] : []].join(" ");
  return all ? `${all}\n${text}` : text;
}

/** The kernel of that name, of a {@linkcode Generated.source}. */
export function namedKernel(name: string, source: string): string {
  if (source.startsWith("(")) return `kernel void ${name}${source}`;
  const end = source.indexOf("\n");
  return `kernel ${source.slice(0, end)} void ${name}${source.slice(end + 1)}`;
}

function parameterType(p: Parameter): string {
  if (p.kind === "constant") return computeType(p.dtype);
  return p.kind === "index" ? "Index" : "int";
}

/**
 * A loop kernel's text: `write` appends the body to the emitter, and says how it is launched.
 *
 * @param scratch The types of the buffers behind the outputs.
 */
export function generatedLoop(
  kernel: LoopKernel,
  target: Target,
  write: (emitter: Emitter) => WorkSize,
  scratch: readonly DType[] = [],
): Generated {
  const emitter = new Emitter(kernel, openclDialect(target.isGpu));
  const size = write(emitter);
  return generated({
    ...size,
    inputs: kernel.inputs,
    outputs: [...kernel.outputs.map((o) => o.dtype), ...scratch],
    parameters: emitter.parameters,
    checksIndices: kernel.indirect.length > 0,
    isWide: needsWideIndices(kernel, target.narrowEnd),
    body: emitter.lines.join("\n"),
  });
}
