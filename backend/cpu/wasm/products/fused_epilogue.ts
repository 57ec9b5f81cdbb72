/**
 * Operations that follow a contraction, computed in the parts of its range: a thread that has added up some
 * sums goes over them again while they are in its caches. They have a module of their own, since that of the
 * sums is large and the same whatever follows.
 */
import { type AffineExpr, coefficient } from "../../../kernel/affine.ts";
import { neededBy } from "../../../kernel/analysis.ts";
import type { Expr, Load, LoopKernel } from "../../../kernel/kernel.ts";
import { type LineForm, lineValues } from "../../../tile/programs/panels/line_values.ts";
import type { HostBlock } from "../../script/runner.ts";
import { floatBits } from "../assembler.ts";
import { castsInLanes, hasLaneForm } from "../loops/primitives.ts";
import type { ChainedKernel, WasmRuntime } from "../runtime.ts";
import { namedCall } from "../tile/tile_call.ts";
import { isContiguous, offsetsOf } from "./contraction_plan.ts";
import type { Tables } from "./tables.ts";

/** Symbols of a contraction's result: lines of elements side by side, across which and along which it goes. */
export interface LineSymbols {
  readonly batch: readonly number[];
  readonly across: readonly number[];
  readonly along: readonly number[];
}

/** Elements of an axis, those of a block, and blocks. */
export interface Cut {
  readonly count: number;
  readonly block: number;
  readonly blocks: number;
}

/** The range of a contraction: batches of blocks, those of one axis after those of the other. */
export interface LineBlocks {
  readonly across: Cut;
  readonly along: Cut;
  /** The next task is the next block across. */
  readonly acrossIsInner: boolean;
}

/** Operations that follow a contraction. */
export class FusedEpilogue {
  /** A line for people. */
  readonly source: string;
  readonly #form: Omit<LineForm, "acrossIsInner">;
  readonly #tables: Readonly<Record<string, Int32Array>>;
  readonly #inputs: readonly number[];
  readonly #constants: readonly number[];

  /**
   * Those behind the contraction of a kernel with one result, or null where they take more than lanes of
   * floats, or do not lie in such lines.
   */
  static of(kernel: LoopKernel, symbols: LineSymbols): FusedEpilogue | null {
    const [output, ...others] = kernel.outputs;
    if (output === undefined || others.length > 0 || output.dtype !== "float32") return null;
    if (!isContiguous(offsetsOf(kernel, output.index, symbols.along))) return null;
    const ids = neededBy(kernel, [output.expr]);
    if (!ids.every((id) => isInLanes(kernel, kernel.exprs[id]!))) return null;
    const loads = ids.flatMap((id) => {
      const e = kernel.exprs[id]!;
      return e.op === "load" ? [kernel.loads[e.load]!] : [];
    });
    const areAlong = loads.map((load) => isAlong(kernel, load, symbols.along));
    if (areAlong.includes(null)) return null;
    return new FusedEpilogue(kernel, symbols, ids, loads, areAlong as boolean[]);
  }

  private constructor(
    kernel: LoopKernel,
    { batch, across }: LineSymbols,
    ids: readonly number[],
    loads: readonly Load[],
    areAlong: readonly boolean[],
  ) {
    const constants: number[] = [], { index } = kernel.outputs[0]!;
    let load = 0;
    const exprs = ids.map((id) => {
      const e = kernel.exprs[id]!;
      if (e.op === "load") return { ...e, load: load++ };
      if (e.op === "constant") return { ...e, value: constants.push(e.value) - 1 };
      return "args" in e ? { ...e, args: e.args.map((arg) => ids.indexOf(arg)) } : e;
    });
    this.#form = { exprs, areAlong };
    this.#constants = constants;
    this.#inputs = loads.map(({ input }) => input);
    const begins = (of: AffineExpr): Int32Array =>
      offsetsOf(kernel, of, batch).map((offset) => offset + of.offset);
    const tables: Record<string, Int32Array> = {
      resultBatch: begins(index),
      resultLines: offsetsOf(kernel, index, across),
    };
    loads.forEach(({ index }, k) => {
      tables[`load${k}Batch`] = begins(index);
      tables[`load${k}Lines`] = offsetsOf(kernel, index, across);
    });
    this.#tables = tables;
    const names = exprs.flatMap((e) => e.op === "primitive" ? [e.fn] : []);
    this.source = `// and in the same parts: ${names.join(", ")}`;
  }

  /** The tables that it reads, for those of its contraction. */
  get tables(): Readonly<Record<string, Int32Array>> {
    return this.#tables;
  }

  /** A function that prepares a run, in the parts that `blocks` says; null where an input is in other memory. */
  chain(
    runtime: WasmRuntime,
    tables: Tables,
    { across, along, acrossIsInner }: LineBlocks,
  ): (inputs: readonly HostBlock[], result: HostBlock, tables: HostBlock) => ChainedKernel | null {
    const form = { ...this.#form, acrossIsInner };
    const numbers: Record<string, number> = {
      ...tables.begins,
      ...{ across: across.count, acrossBlock: across.block, acrossBlocks: across.blocks },
      ...{ along: along.count, alongBlock: along.block, alongBlocks: along.blocks },
    };
    this.#constants.forEach((value, k) => numbers[`constant${k}`] = floatBits(value));
    // Its work-items are those of the contraction.
    const name = `lines ${JSON.stringify(form)}`, options = { numbers, cost: 0 };
    const call = namedCall(name, () => lineValues(form), 0, options, runtime);
    return (inputs, result, tables) =>
      call.chain([...this.#inputs.map((input) => inputs[input]!), tables], [result]);
  }
}

function isInLanes({ exprs, loads, indirect }: LoopKernel, e: Expr): boolean {
  const isPlain = e.dtype === "float32" || e.dtype === "bool";
  if (!isPlain || indirect.length > 0) return false;
  switch (e.op) {
    case "load": {
      const { bounds, packed, dtype } = loads[e.load]!;
      return dtype === "float32" && bounds.length === 0 && packed === undefined;
    }
    case "constant":
      return e.dtype === "float32";
    case "contracted":
      return true;
    case "primitive":
      return hasLaneForm(e.fn, exprs[e.args.at(-1)!]!.dtype);
    case "cast":
      return castsInLanes(exprs[e.args[0]!]!.dtype, e.dtype);
    default:
      return false;
  }
}

/** True where elements of a load lie side by side along lines, false where a line has one; else null. */
function isAlong(kernel: LoopKernel, { index }: Load, along: readonly number[]): boolean | null {
  if (along.every((s) => kernel.sizes[s] === 1 || coefficient(index, s) === 0)) return false;
  return isContiguous(offsetsOf(kernel, index, along)) ? true : null;
}
