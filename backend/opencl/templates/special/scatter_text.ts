/** Common parts of scatters: joins, and on GPUs places of rows and the copy of what is added to. */
import { opCode } from "../../../graph/index_error.ts";
import { stridesOf } from "../../../graph/shape.ts";
import type { DType } from "../../../graph/dtype.ts";
import type { ScatterMode } from "../../../graph/op.ts";
import { scatterCombiner } from "../../../graph/reductions.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import type { Generated } from "../../codegen/generated.ts";
import { renderScalar } from "../../codegen/scalar_primitives.ts";
import { literal, loadText, storeText } from "../../codegen/types.ts";
import type { Parameters } from "../parts/row_kernel.ts";
import type { MakeKernel } from "../sorting/group_sort.ts";

/** A scatter. */
export type Scatter = SpecialKernel & { readonly op: "scatter" };

/** Work-items of a group that copies the base, and elements of each of them. */
const COPY = 256, COPIED = 4;

/** True where all lines are scattered by the same indices. */
export function hasSharedIndices({ indexStrides, axis }: Scatter): boolean {
  return indexStrides.every((stride, k) => k === axis || stride === 0);
}

/** True where sources are added or stored: the scatters of GPUs know no other join. */
export const addsOrSets = ({ mode }: Scatter): boolean => mode === "add" || mode === "set";

/** The value that a source leaves at its place. */
export function joinedText(mode: ScatterMode, dtype: DType, at: string, source: string): string {
  const join = scatterCombiner(mode), former = loadText("o0", dtype, at);
  return join === null ? source : renderScalar(join, [former, source], dtype, dtype);
}

/** An element of what sources are joined with. */
export function baseText({ fill, output: { dtype } }: Scatter, at: string): string {
  return fill === undefined ? loadText("a0", dtype, at) : literal(fill, dtype);
}

/** Elements of a source row. */
export function linesOf({ sourceShape, axis }: Scatter): number {
  return sourceShape.reduce((n, size, k) => k === axis ? n : n * size, 1);
}

/** The type that sources of a target are added up in. */
export function scatterAccumulator({ output: { dtype } }: Scatter): DType {
  return dtype === "float16" || dtype === "bfloat16" ? "float32" : dtype;
}

/** The index at a place, if it is one of the result's axis. */
export function checkedText({ shape, axis, opName }: Scatter, p: Parameters, at: string): string {
  const size = p.index(shape[axis]!), code = p.index(opCode(opName));
  return `checked_index((long)a1[${at}], ${size}, (int)${code}, errors)`;
}

/** Declares \`key\`, the element of the result that source \`i\` goes to. */
export function elementText(kernel: Scatter, p: Parameters): string {
  const { shape, sourceShape, indexStrides, axis } = kernel, strides = stridesOf(shape);
  const lines = [...sourceShape.keys()].toReversed().map((k) => {
    const n = p.index(sourceShape[k]!);
    const step = k === axis ? "" : ` goal += c * ${p.index(strides[k]!)};`;
    return `{ const int c = rest % ${n}; rest /= ${n}; index += c * ${
      p.index(indexStrides[k]!)
    };${step} }`;
  });
  return `int rest = i, goal = 0, index = 0;
      ${lines.join("\n      ")}
      const uint key = (uint)(goal + (int)${checkedText(kernel, p, "index")} * ${
    p.index(strides[axis]!)
  });`;
}

/** Declares where a column of the source rows begins in the sources (`at`) and in the result (`base`). */
export function columnPlace(
  { shape, sourceShape, axis }: Scatter,
  p: Parameters,
  column: string,
): string {
  const others = shape.map((_, k) => k).filter((k) => k !== axis);
  const strides = stridesOf(shape), sourceStrides = stridesOf(sourceShape);
  const lines = others.toReversed().map((k) => {
    const n = p.index(sourceShape[k]!);
    return `  { const Index i = rest % ${n}; rest /= ${n}; base += i * ${
      p.index(strides[k]!)
    }; at += i * ${p.index(sourceStrides[k]!)}; }`;
  });
  return [`  Index rest = ${column}, base = 0, at = 0;`, ...lines].join("\n");
}

/** Further work of the groups of {@linkcode copyBase}. */
export interface BesideCopy {
  readonly groups: number;
  readonly text: (p: Parameters) => string;
}

/** The kernel that writes the base to the result, in groups of 256 work-items. */
export function copyBase(
  kernel: Scatter,
  make: MakeKernel,
  beside: BesideCopy = { groups: 0, text: () => "" },
): Generated {
  const share = COPY * COPIED, { dtype, size } = kernel.output;
  const write = (p: Parameters): string =>
    `  const Index end = min(((Index)get_group_id(0) + 1) * ${share}, ${p.index(size)});
  for (Index i = (Index)get_group_id(0) * ${share} + (int)get_local_id(0); i < end; i += ${COPY}) {
    ${storeText("o0", dtype, "i", baseText(kernel, "i"))}
  }
${beside.text(p)}`;
  return make(write, Math.max(Math.ceil(size / share), beside.groups), COPY);
}
