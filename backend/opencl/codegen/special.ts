/** OpenCL C for the operations whose loops carry state: scatter, running sums, sorting, folding. */
import { dtypes, isFloat } from "../../graph/dtype.ts";
import type { Parameter } from "../../codegen/emit.ts";
import { needsWideIndices } from "../../kernel/index_range.ts";
import type { SpecialKernel } from "../../kernel/kernel.ts";
import { opCode } from "../../graph/op_names.ts";
import { renderCL } from "../../kernel/primitives.ts";
import { stridesOf } from "../../graph/shape.ts";
import { type Generated, kernelText } from "../templates/codegen.ts";
import { loadText, storeText } from "./dialect.ts";

/** Collects scalar parameters under their position. */
class Parameters {
  readonly list: Parameter[] = [];

  index(value: number): string {
    return `p${this.list.push({ kind: "index", value }) - 1}`;
  }
}

/** Writes a special kernel: one work-item per independent row of work. */
export function generateSpecial(kernel: SpecialKernel, narrowEnd: number): Generated {
  const p = new Parameters();
  const { body, rows } = bodyOf(kernel, p);
  const outputs = [kernel.output.dtype];
  const text = `  const Index row = get_global_id(0);\n${body}`;
  const count = Math.max(rows, 1);
  const local = 16;
  const scalars = {
    parameters: p.list,
    checksIndices: kernel.op === "scatter",
    isWide: needsWideIndices(kernel, narrowEnd),
  };
  return {
    source: kernelText(kernel.inputs, outputs, scalars, text),
    buffers: [...kernel.inputs, ...outputs],
    global: [Math.ceil(count / local) * local],
    local: [local],
    ...scalars,
  };
}

function bodyOf(kernel: SpecialKernel, p: Parameters): { body: string; rows: number } {
  switch (kernel.op) {
    case "scan":
      return { body: scan(kernel, p), rows: kernel.rows };
    case "argsort":
      return { body: argsort(kernel, p), rows: kernel.rows };
    case "fold":
      return { body: fold(kernel, p), rows: kernel.output.size };
    case "scatter":
      return scatter(kernel, p);
  }
}

/** The scalar function that joins a running result with the next element. */
const joins = { prod: "mul", max: "maximum", min: "minimum" } as const;

/** Terms of a running sum in a row: each of them is stored, so roundings within a block are seen. */
const SCAN_BLOCK = 16;

/**
 * Running products and extremes, and sums. Sums of floats are added up in blocks: what adding a block to the sum rounds off is
 * the start of the next one.
 */
function scan(kernel: SpecialKernel & { op: "scan" }, p: Parameters): string {
  const dtype = kernel.output.dtype;
  const T = dtypes[dtype].clCompute;
  const rows = p.index(kernel.rows), length = p.index(kernel.length);
  const load = loadText("a0", kernel.inputs[0]!, "i");
  const head = `  if (row >= ${rows}) return;
  const Index end = (row + 1) * ${length};`;
  if (kernel.fn !== "sum") {
    return `${head}
  Index i = row * ${length};
  ${T} so = ${load};
  for (;;) {
    ${storeText("o0", dtype, "i", "so")}
    if (++i >= end) break;
    so = ${renderCL(joins[kernel.fn], ["so", load], dtype, dtype)};
  }`;
  }
  if (!isFloat(dtype)) {
    return `${head}
  ${T} sum = 0;
  for (Index i = row * ${length}; i < end; ++i) {
    sum += ${load};
    ${storeText("o0", dtype, "i", "sum")}
  }`;
  }
  const block = (count: string): string =>
    `for (int k = 0; k < ${count}; ++k, ++i) {
      part += ${load};
      ${storeText("o0", dtype, "i", "sum + part")}
    }`;
  return `${head}
  ${T} sum = 0, part = 0;
  Index i = row * ${length};
  while (i + ${SCAN_BLOCK} <= end) {
    ${block(`${SCAN_BLOCK}`)}
    const ${T} next = sum + part, added = next - sum;
    part = (sum - (next - added)) + (part - added);
    if (part != part) part = 0;
    sum = next;
  }
  const int left = (int)(end - i);
  ${block("left")}`;
}

/**
 * Each element's place is the number of elements that come before it: quadratic in the row, but
 * stable, deterministic and without a barrier.
 */
function argsort(kernel: SpecialKernel & { op: "argsort" }, p: Parameters): string {
  const dtype = kernel.inputs[0]!;
  const T = dtypes[dtype].clCompute;
  const rows = p.index(kernel.rows), length = p.index(kernel.length);
  const before = kernel.descending
    ? "(w > v || (w != w && v == v))"
    : "(w < v || (v != v && w == w))";
  const same = "((w == v) || (w != w && v != v))";
  return `  if (row >= ${rows}) return;
  const Index start = row * ${length};
  for (Index i = 0; i < ${length}; ++i) {
    const ${T} v = ${loadText("a0", dtype, "start + i")};
    Index place = 0;
    for (Index j = 0; j < ${length}; ++j) {
      const ${T} w = ${loadText("a0", dtype, "start + j")};
      place += ${before} || (j < i && ${same});
    }
    o0[start + place] = i;
  }`;
}

/** One work-item an element of the result: it sums what every window took from it. */
function fold(kernel: SpecialKernel & { op: "fold" }, p: Parameters): string {
  const dtype = kernel.output.dtype;
  const spatial = kernel.shape.length;
  const source = [...kernel.positions, ...kernel.kernel];
  const strides = stridesOf(source);
  const total = source.reduce((a, b) => a * b, 1);
  const lines = [
    `  if (row >= ${p.index(kernel.output.size)}) return;`,
    "  Index rest = row;",
  ];
  for (let k = spatial - 1; k >= 0; k--) {
    const n = p.index(kernel.shape[k]!);
    lines.push(`  const Index x${k} = rest % ${n}; rest /= ${n};`);
  }
  lines.push(`  ${dtypes[dtype].clCompute} sum = 0;`);
  for (let k = 0; k < spatial; k++) {
    const pad = "  ".repeat(k + 1);
    lines.push(
      `${pad}for (Index t${k} = 0; t${k} < ${p.index(kernel.kernel[k]!)}; ++t${k}) {`,
      `${pad}  const Index at${k} = x${k} - t${k} * ${p.index(kernel.dilation[k]!)};`,
      `${pad}  const Index w${k} = at${k} / ${p.index(kernel.stride[k]!)};`,
      `${pad}  if (at${k} < 0 || w${k} * ${p.index(kernel.stride[k]!)} != at${k} || w${k} >= ${
        p.index(kernel.positions[k]!)
      }) continue;`,
    );
  }
  const terms = [`rest * ${p.index(total)}`];
  for (let k = 0; k < spatial; k++) {
    terms.push(`w${k} * ${p.index(strides[k]!)}`, `t${k} * ${p.index(strides[spatial + k]!)}`);
  }
  lines.push(`  sum += ${loadText("a0", kernel.inputs[0]!, terms.join(" + "))};`);
  for (let k = 0; k < spatial; k++) lines.push("  }");
  lines.push(`  ${storeText("o0", dtype, "row", "sum")}`);
  return lines.join("\n");
}

/**
 * One work-item per line along the axis, over all other coordinates of the result: it copies the
 * base, then adds its sources in order. No two items write the same element, so sums are
 * deterministic.
 */
function scatter(
  kernel: SpecialKernel & { op: "scatter" },
  p: Parameters,
): { body: string; rows: number } {
  const { shape, sourceShape, indexStrides, axis } = kernel;
  const dtype = kernel.output.dtype;
  const others = shape.map((_, k) => k).filter((k) => k !== axis);
  const strides = stridesOf(shape), sourceStrides = stridesOf(sourceShape);
  const rows = others.reduce((n, k) => n * shape[k]!, 1);
  const lines = [
    `  if (row >= ${p.index(rows)}) return;`,
    "  Index rest = row, base = 0, at = 0, index = 0, skip = 0;",
  ];
  for (const k of others.toReversed()) {
    const n = p.index(shape[k]!);
    lines.push(
      `  { const Index i = rest % ${n}; rest /= ${n}; base += i * ${
        p.index(strides[k]!)
      }; at += i * ${p.index(sourceStrides[k]!)}; index += i * ${
        p.index(indexStrides[k]!)
      }; skip |= i >= ${p.index(sourceShape[k]!)}; }`,
    );
  }
  const step = p.index(strides[axis]!), count = p.index(shape[axis]!);
  const sourceStep = p.index(sourceStrides[axis]!), sourceCount = p.index(sourceShape[axis]!);
  const indexStep = p.index(indexStrides[axis]!);
  const target = `base + j * ${step}`;
  lines.push(
    `  for (Index j = 0; j < ${count}; ++j) { ${
      storeText("o0", dtype, target, loadText("a0", dtype, target))
    } }`,
    "  if (skip) return;",
    `  for (Index s = 0; s < ${sourceCount}; ++s) {`,
    `    const Index from = at + s * ${sourceStep};`,
    `    const Index j = checked_index((long)a1[index + s * ${indexStep}], ${count}, (int)${
      p.index(opCode(kernel.opName))
    }, errors);`,
    `    ${
      storeText(
        "o0",
        dtype,
        target,
        kernel.mode === "add"
          ? `${loadText("o0", dtype, target)} + ${loadText("a2", dtype, "from")}`
          : loadText("a2", dtype, "from"),
      )
    }`,
    "  }",
  );
  return { body: lines.join("\n"), rows };
}
