/**
 * JavaScript for kernels: the loops that OpenCL spreads over work-items are written out.
 *
 * This folder (`script/`) imports `codegen/`, `kernel/` and `graph/`. Kernels come from
 * `cpu_backend.ts`; what goes out are functions over typed arrays, the fallback of all other ways.
 */
import { Emitter, type Parameter } from "../../codegen/emit.ts";
import type { LoopKernel, SpecialKernel } from "../../kernel/kernel.ts";
import { summedProducts } from "../../kernel/forms/summed_products.ts";
import { opCode } from "../../graph/index_error.ts";
import { openLoop } from "../../codegen/loops.ts";
import { emitRow } from "../../codegen/rows.ts";
import { stridesOf } from "../../graph/shape.ts";
import { combinerOf, scatterCombiner } from "../../graph/reductions.ts";
import { literal, loadText, scriptDialect, storeText } from "./dialect.ts";
import { renderScript } from "./primitives.ts";

/** A kernel's body: buffers are `a0...` and `o0...`, scalars `p0...`. */
export interface GeneratedScript {
  readonly body: string;
  readonly parameters: readonly Parameter[];
}

/** Writes a loop kernel. */
export function generateScript(given: LoopKernel): GeneratedScript {
  const kernel = summedProducts(given), emitter = new Emitter(kernel, scriptDialect);
  for (const s of kernel.outer) openLoop(emitter, s);
  emitRow(emitter);
  for (const _ of kernel.outer) emitter.close();
  return { body: emitter.lines.join("\n"), parameters: emitter.parameters };
}

/** Writes a special kernel; its sizes are part of the text. */
export function generateSpecialScript(kernel: ScriptedSpecial): GeneratedScript {
  return { body: specialBody(kernel), parameters: [] };
}

/** Special kernels that are written as JavaScript. */
export type ScriptedSpecial = Exclude<SpecialKernel, { readonly op: "recurrence" | "argsort" }>;

function specialBody(kernel: ScriptedSpecial): string {
  switch (kernel.op) {
    case "scan":
      return scan(kernel);
    case "scatter":
      return scatter(kernel);
  }
}

function scan(kernel: SpecialKernel & { op: "scan" }): string {
  const { fn, rows, length } = kernel;
  const dtype = kernel.output.dtype;
  if (fn !== "sum") {
    const element = loadText("a0", kernel.inputs[0]!, "i");
    return `for (let row = 0; row < ${rows}; row++) {
  let i = row * ${length}, so = ${element};
  for (const end = i + ${length};;) {
    ${storeText("o0", dtype, "i", "so")}
    if (++i === end) break;
    so = ${renderScript(combinerOf(fn), ["so", element], dtype, dtype)};
  }
}`;
  }
  return `for (let row = 0; row < ${rows}; row++) {
  let sum = ${literal(0, dtype)};
  for (let i = row * ${length}, end = i + ${length}; i < end; i++) {
    sum += ${loadText("a0", kernel.inputs[0]!, "i")};
    ${storeText("o0", dtype, "i", "sum")}
  }
}`;
}

function scatter(kernel: SpecialKernel & { op: "scatter" }): string {
  const { shape, sourceShape, indexStrides, axis } = kernel;
  const dtype = kernel.output.dtype;
  const strides = stridesOf(shape);
  const loops = sourceShape.map((n, k) => `for (let i${k} = 0; i${k} < ${n}; i${k}++)`).join(" ");
  const others = sourceShape.map((_, k) => k).filter((k) => k !== axis)
    .map((k) => `i${k} * ${strides[k]}`);
  const index = indexStrides.map((stride, k) => `i${k} * ${stride}`).join(" + ");
  const code = opCode(kernel.opName);
  const source = loadText("a2", dtype, "s");
  const join = scatterCombiner(kernel.mode), former = loadText("o0", dtype, "at");
  const value = join === null ? source : renderScript(join, [former, source], dtype, dtype);
  // A compiled function may lend a block that is longer than the tensor in it.
  const copy = kernel.mode === "write" ? "" : `o0.set(a0.subarray(0, ${kernel.output.size}));`;
  return `${copy}
let s = 0;
${loops} {
  const j = checkedIndex(Number(a1[${index}]), ${shape[axis]}, ${code});
  const at = ${[...others, `j * ${strides[axis]}`].join(" + ")};
  ${storeText("o0", dtype, "at", value)}
  s++;
}`;
}
