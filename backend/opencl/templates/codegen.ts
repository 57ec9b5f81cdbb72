/** OpenCL C for loop kernels: how iterations map to work-items, and the text of each kind. */
import { type DType, dtypes } from "../../graph/dtype.ts";
import { type Dialect, Emitter, type Parameter } from "../../codegen/emit.ts";
import { needsWideIndices } from "../../kernel/index_range.ts";
import { flatBlocks } from "../../kernel/accumulation.ts";
import { extent, type LoopKernel } from "../../kernel/kernel.ts";
import { accumulatorType, emitRow, openLoop, StageSums, usesInner } from "../../codegen/rows.ts";
import { emitContraction, emitGeneralContraction } from "./contraction.ts";
import { emitVectorKernel } from "../codegen/vector_loops.ts";
import { combineText, openclDialect, prefersText } from "../codegen/dialect.ts";
import { decompose, openRows } from "../codegen/indices.ts";
import type { Tuned } from "./tile_choices.ts";

/** A kernel's text and how it is launched. */
export interface Generated {
  /** The parameter list and body: equal texts are one kernel. */
  readonly source: string;
  /** The element types of the buffers, inputs before outputs. */
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

/** What the shape of the generated code depends on. */
export interface Target {
  /** Work-items are lanes of wide cores that want neighbours to read neighbours. */
  readonly isGpu: boolean;
  /** Bytes of local memory that a work-group may use. */
  readonly localMemory: number;
  readonly computeUnits: number;
  /** Matrix units (tensor cores) that inline PTX of compute capability 8.0 reaches. */
  readonly matrixUnits: boolean;
  /** Floats in a vector of the hardware. */
  readonly vectorWidth: number;
  /** Kernels whose indices may reach this number count in 64 bits. */
  readonly narrowEnd: number;
  /** The tiles that were tuned on this device, by shape. */
  readonly tuned: ReadonlyMap<string, Tuned>;
}

/** Elements of a row that is written out, and of the expressions of all its elements. */
const SHORT_ROW = 16, MAX_UNROLLED = 256;
/** Elements of a work-item that takes many short rows. */
const SHARE = 4096;

/** Work-items of a group, and of one that reduces a row of few elements. */
const GROUP = 256, MIN_GROUP = 64;
/** Elements of a row for each work-item of its group: fewer make joining longer than summing. */
const MIN_SHARE = 4;

/** Writes a loop kernel for a target. */
export function generate(kernel: LoopKernel, target: Target): Generated {
  const dialect = openclDialect((r) => accumulatorType(kernel, r), target.isGpu);
  const emitter = new Emitter(kernel, dialect);
  const range = emitKernel(emitter, dialect, target);
  return finish(emitter, range, needsWideIndices(kernel, target.narrowEnd));
}

function emitKernel(emitter: Emitter, dialect: Dialect, target: Target): Range {
  const { kernel } = emitter;
  if (kernel.contraction) return contraction(emitter, dialect, target);
  if (target.isGpu && reducesInGroups(kernel)) return group(emitter, dialect);
  const vectors = target.isGpu ? null : emitVectorKernel(emitter, dialect);
  if (vectors) return vectors;
  if (!target.isGpu && hasShortRows(kernel)) return shortRows(emitter, dialect);
  const range = ndRange(emitter, target, localSize(kernel, target));
  emitRow(emitter, dialect);
  return range;
}

/** True for rows of a few elements, such as the windows of a pooling. */
function hasShortRows(kernel: LoopKernel): boolean {
  const length = extent(kernel, kernel.inner);
  return kernel.inner.length > 0 && kernel.outer.length > 0 && !kernel.chunk &&
    length <= SHORT_ROW && length * kernel.exprs.length <= MAX_UNROLLED;
}

/** Many rows a work-item, in loops of its own; a row's elements are written out. */
function shortRows(emitter: Emitter, dialect: Dialect): Range {
  const { kernel } = emitter;
  const last = kernel.outer[kernel.outer.length - 1]!;
  // The row of an empty axis has no elements, and is stored as others are.
  const line = Math.max(1, kernel.sizes[last]! * extent(kernel, kernel.inner));
  const items = openRows(emitter, kernel.outer.slice(0, -1), Math.ceil(SHARE / line));
  openLoop(emitter, dialect, last);
  emitRow(emitter, dialect, true);
  emitter.close();
  emitter.close();
  return { global: [items], local: [1] };
}

/** How many work-items there are, and how many make a group. */
export interface Range {
  readonly global: readonly number[];
  readonly local: readonly number[];
}

/** Maps the outer loops to work-items, the last one to neighbours. */
function ndRange(emitter: Emitter, target: Target, local: readonly number[]): Range {
  const { outer, sizes } = emitter.kernel;
  if (outer.length === 0) return { global: [1], local: [1] };
  // A GPU's second and third dimensions are too short for any shape: everything goes on the first.
  const flat = outer.length === 1 || target.isGpu;
  const lead = flat ? outer : outer.slice(0, -1);
  if (!flat) {
    const last = outer[outer.length - 1]!;
    emitter.line(`const Index i${last} = get_global_id(0);`);
  }
  const total = extent(emitter.kernel, lead);
  decompose(emitter, lead, flat ? "get_global_id(0)" : "get_global_id(1)");
  const bounds = flat ? [] : [outer[outer.length - 1]!];
  const tests = bounds.map((s) => `i${s} >= ${emitter.size(s)}`);
  tests.push(
    lead.length === 1
      ? `i${lead[0]} >= ${emitter.size(lead[0]!)}`
      : `row >= ${emitter.index(total)}`,
  );
  emitter.line(`if (${tests.join(" || ")}) return;`);
  const counts = flat ? [total] : [sizes[outer[outer.length - 1]!]!, total];
  const groups = counts.map((_, k) => local[k] ?? 1);
  return { global: counts.map((n, k) => Math.ceil(n / groups[k]!) * groups[k]!), local: groups };
}

/** A handful of local sizes: CPU drivers compile a kernel anew for each. */
function localSize(kernel: LoopKernel, target: Target): readonly number[] {
  const last = kernel.outer[kernel.outer.length - 1];
  if (last === undefined) return [1];
  if (target.isGpu) return [GROUP];
  if (kernel.inner.length > 0) return walksColumns(kernel, last) ? [16] : [1];
  if (kernel.outer.length === 1) return [GROUP];
  return kernel.sizes[last]! >= 64 ? [64] : [8, 8];
}

/** True when neighbouring rows read neighbouring elements, so rows belong side by side. */
function walksColumns(kernel: LoopKernel, last: number): boolean {
  const innermost = kernel.inner[kernel.inner.length - 1]!;
  // What is read once a row (a channel's mean) says nothing about how the elements lie.
  const elements = kernel.loads.filter((l) => l.form.terms.some(([t]) => kernel.inner.includes(t)));
  const steps = (s: number): number =>
    elements.filter((l) => l.form.terms.some(([t, c]) => t === s && c === 1)).length;
  return steps(last) > steps(innermost);
}

/** True when the rows of a kernel are long and contiguous: a GPU gives each a work-group. */
export function reducesInGroups(kernel: LoopKernel): boolean {
  if (kernel.inner.length === 0) return false;
  const rows = kernel.outer.filter((s) => s !== kernel.chunk?.part);
  const last = rows[rows.length - 1];
  if (last !== undefined && walksColumns(kernel, last)) return false;
  return extent(kernel, kernel.inner) >= 64;
}

/** Work-items that share a row of so many elements. */
function groupSize(length: number): number {
  let size = GROUP;
  while (size > MIN_GROUP && size * MIN_SHARE > length) size /= 2;
  return size;
}

/** One work-group a row: its items walk the row together and join their results in local memory. */
function group(emitter: Emitter, dialect: Dialect): Range {
  const { kernel } = emitter;
  const rows = extent(kernel, kernel.outer);
  const items = groupSize(extent(kernel, kernel.inner));
  emitter.line("const int lid = get_local_id(0);");
  if (kernel.outer.length > 0) decompose(emitter, kernel.outer, "get_group_id(0)");
  const length = groupLength(kernel);
  const [start, end] = groupBounds(emitter);
  const done = new Set<number>();
  const declareRow = (ids: readonly number[]): void => {
    emitter.declare(ids.filter((id) => !done.has(id)));
    for (const id of ids) done.add(id);
  };
  const loop = (body: () => void, sums: StageSums | null = null): void => {
    let [from, to] = [start, end];
    if (sums?.blocks) {
      const step = emitter.index(sums.blocks.length * items);
      emitter.open(dialect.loopHead("block", start, end, step));
      sums.begin();
      [from, to] = ["block", dialect.smaller(`block + ${step}`, end)];
    }
    emitter.open(dialect.loopHead("t", `${from} + lid`, to, `${items}`));
    decomposeInner(emitter);
    body();
    emitter.close();
    if (sums?.blocks) {
      sums.end();
      emitter.close();
    }
  };
  for (const stage of emitter.stages()) {
    const { row, inner } = emitter.needs(stage.map((r) => kernel.reductions[r]!.expr));
    declareRow(row);
    const sums = new StageSums(emitter, dialect, stage, flatBlocks(Math.ceil(length / items)));
    sums.declare();
    loop(() => {
      emitter.declare(inner);
      sums.accumulate();
    }, sums);
    sums.finish((r) => joinInLocalMemory(emitter, r, items));
  }
  const rowOutputs: number[] = [], innerOutputs: number[] = [];
  kernel.outputs.forEach((output, o) => {
    const inner = emitter.isInner(output.expr) || usesInner(kernel, o);
    (inner ? innerOutputs : rowOutputs).push(o);
  });
  declareRow(emitter.needs(rowOutputs.map((o) => kernel.outputs[o]!.expr)).row);
  if (rowOutputs.length > 0) {
    emitter.open("if (lid == 0) {");
    for (const o of rowOutputs) emitter.store(o);
    emitter.close();
  }
  if (innerOutputs.length > 0) {
    const { row, inner } = emitter.needs(innerOutputs.map((o) => kernel.outputs[o]!.expr));
    declareRow(row);
    loop(() => {
      emitter.declare(inner);
      for (const o of innerOutputs) emitter.store(o);
    });
  }
  return { global: [rows * items], local: [items] };
}

/** Which of a row's elements a group walks: all, or the part that a split gave it. */
function groupBounds(emitter: Emitter): [start: string, end: string] {
  const { kernel } = emitter;
  const { chunk } = kernel;
  const length = extent(kernel, kernel.inner);
  if (!chunk) return ["0", emitter.index(length)];
  const share = emitter.index(groupLength(kernel));
  if (chunk.symbol !== kernel.inner[0]) return ["0", share];
  emitter.line(`const Index first = i${chunk.part} * ${share};`);
  emitter.line(`const Index behind = min(first + ${share}, ${emitter.index(length)});`);
  return ["first", "behind"];
}

/** How many elements a group walks. */
function groupLength(kernel: LoopKernel): number {
  const length = extent(kernel, kernel.inner), { chunk } = kernel;
  return chunk ? chunk.length * (length / kernel.sizes[chunk.symbol]!) : length;
}

function decomposeInner(emitter: Emitter): void {
  const { inner, chunk } = emitter.kernel;
  let rest = "t";
  for (let k = inner.length - 1; k > 0; k--) {
    const s = inner[k]!;
    const isCut = s === chunk?.symbol;
    const size = isCut ? emitter.index(chunk!.length) : emitter.size(s);
    const start = isCut ? ` + i${chunk!.part} * ${size}` : "";
    emitter.line(`const Index i${s} = ${rest} % ${size}${start}, q${s} = ${rest} / ${size};`);
    if (isCut) emitter.line(`if (i${s} >= ${emitter.size(s)}) continue;`);
    rest = `q${s}`;
  }
  if (inner.length > 0) emitter.line(`const Index i${inner[0]} = ${rest};`);
}

/** Joins the accumulators of a group's items; every item then has the result. */
function joinInLocalMemory(emitter: Emitter, r: number, items: number): void {
  const reduction = emitter.kernel.reductions[r]!;
  const dtype = accumulatorType(emitter.kernel, reduction);
  const T = dtypes[dtype].clCompute;
  const isArg = Emitter.isArg(reduction);
  const value = isArg ? `r${r}v` : `r${r}`;
  emitter.line(`local ${T} s${r}[${items}]; s${r}[lid] = ${value};`);
  if (isArg) emitter.line(`local Index j${r}[${items}]; j${r}[lid] = r${r}i;`);
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.open(`for (int h = ${items / 2}; h > 0; h >>= 1) {`);
  emitter.open("if (lid < h) {");
  if (isArg) joinArgs(emitter, r, prefersText(reduction, dtype, `s${r}[lid]`, `s${r}[lid + h]`));
  else {
    const joined = combineText(reduction, dtype, `s${r}[lid]`, `s${r}[lid + h]`);
    emitter.line(`s${r}[lid] = ${joined};`);
  }
  emitter.close();
  emitter.line("barrier(CLK_LOCAL_MEM_FENCE);");
  emitter.close();
  emitter.line(`${value} = s${r}[0];${isArg ? ` r${r}i = j${r}[0];` : ""}`);
}

/** Keeps the better of two candidates; among equals the one that comes first in the row. */
function joinArgs(emitter: Emitter, r: number, prefers: string): void {
  const [mine, other] = [`s${r}[lid]`, `s${r}[lid + h]`];
  const tie =
    `(!(${mine} < ${other}) && !(${mine} > ${other}) && (${mine} == ${mine}) == (${other} == ${other}) && j${r}[lid + h] < j${r}[lid])`;
  emitter.open(`if (j${r}[lid + h] >= 0 && (j${r}[lid] < 0 || ${prefers} || ${tie})) {`);
  emitter.line(`${mine} = ${other}; j${r}[lid] = j${r}[lid + h];`);
  emitter.close();
}

function contraction(emitter: Emitter, dialect: Dialect, target: Target): Range {
  const tiled = emitContraction(emitter, dialect, target);
  if (tiled) return tiled;
  const local = target.isGpu ? [GROUP] : emitter.kernel.outer.length === 1 ? [64] : [64, 1];
  const range = ndRange(emitter, target, local);
  emitGeneralContraction(emitter, dialect);
  return range;
}

/**
 * The parameter list and body of a kernel: buffers with the element where each begins (blocks are
 * parts of larger buffers), the error buffer, scalars. `Index` stands in texts for the type of
 * indices: `int`, or `long` in a wide kernel.
 */
export function kernelText(
  inputs: readonly DType[],
  outputs: readonly DType[],
  { checksIndices, parameters, isWide }: Pick<
    Generated,
    "checksIndices" | "parameters" | "isWide"
  >,
  body: string,
): string {
  const buffers = [
    ...inputs.map((dtype, k) => [`global const ${dtypes[dtype].clStorage}*`, `a${k}`] as const),
    ...outputs.map((dtype, k) => [`global ${dtypes[dtype].clStorage}*`, `o${k}`] as const),
  ];
  const args = [
    ...buffers.map(([type, name]) => `${type} b${name}`),
    ...(checksIndices ? ["global volatile int* errors"] : []),
    ...buffers.map(([, name]) => `const int s${name}`),
    ...parameters.map((p, k) => `const ${parameterType(p)} p${k}`),
  ];
  const starts = buffers.map(([type, name]) => `  ${type} ${name} = b${name} + s${name};\n`);
  const text = `(${args.join(", ")}) {\n${starts.join("")}${body}\n}`;
  return text.replaceAll(/\bIndex\b/g, isWide ? "long" : "int");
}

function parameterType(p: Parameter): string {
  if (p.kind === "constant") return dtypes[p.dtype].clCompute;
  return p.kind === "index" ? "Index" : "int";
}

function finish(emitter: Emitter, range: Range, isWide: boolean): Generated {
  const { kernel, parameters } = emitter;
  const outputs = kernel.outputs.map((o) => o.dtype);
  const scalars = {
    parameters,
    checksIndices: kernel.indirect.length > 0,
    isWide,
  };
  return {
    source: kernelText(kernel.inputs, outputs, scalars, emitter.lines.join("\n")),
    buffers: [...kernel.inputs, ...outputs],
    global: range.global,
    local: range.local,
    ...scalars,
  };
}
