/** The WebAssembly of operations that follow a contraction: see `fused_epilogue.ts`. */
import type { Expr } from "../../../kernel/kernel.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { writeCast, writePrimitive } from "../loops/primitives.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";

/** Operations that follow a contraction, whatever the places and constants. */
export interface EpilogueForm {
  /** In order, the last one is stored; loads and constants are numbered, operands are places in the list. */
  readonly exprs: readonly Expr[];
  /** For each load: its elements lie side by side along a line; else a line has one. */
  readonly areAlong: readonly boolean[];
  /** Count of the constants: they are arguments. */
  readonly constants: number;
}

/** Dependencies of the code. */
export interface EpilogueModuleForm extends EpilogueForm {
  readonly acrossIsInner: boolean;
  readonly isRelaxed: boolean;
}

/** The arguments of a module, in order; places are in bytes. */
export function epilogueArguments({ areAlong, constants }: EpilogueForm): string[] {
  return [
    "result",
    /** Tables: where each batch begins, and each line. */
    ...["lineBatch", "lines"],
    ...["across", "acrossBlock", "acrossBlocks", "along", "alongBlock", "alongBlocks"],
    ...areAlong.flatMap((_, k) => [`load${k}`, `load${k}Batch`, `load${k}Lines`]),
    ...Array.from({ length: constants }, (_, k) => `constant${k}`),
  ];
}

/** The module that goes over the results of tasks `begin` to `end`. */
export function makeEpilogue(form: EpilogueModuleForm): Uint8Array<ArrayBuffer> {
  return new EpilogueWriter(form).write();
}

/** A load along a line: a pointer that moves, or the one element in all lanes. */
type LineLoad = { readonly pointer: Local } | { readonly all: Local };

class EpilogueWriter {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #form: EpilogueModuleForm;
  readonly #args: KernelArguments<string>;

  constructor(form: EpilogueModuleForm) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, form.isRelaxed);
    this.#args = new KernelArguments(this.#f, epilogueArguments(form));
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end } = FunctionBuilder.parameters;
    const [inner, outer] = this.#form.acrossIsInner
      ? ["across", "along"] as const
      : ["along", "across"] as const;
    f.loop(begin, end, 1, (task) => {
      const rest = f.i(i32.divU, task, this.#args.get(`${inner}Blocks`));
      const blocks = {
        [inner]: f.i(i32.remU, task, this.#args.get(`${inner}Blocks`)),
        [outer]: f.i(i32.remU, rest, this.#args.get(`${outer}Blocks`)),
      } as Record<"across" | "along", Local>;
      const batch = f.i(i32.divU, rest, this.#args.get(`${outer}Blocks`));
      const range = (axis: "across" | "along"): { begin: Local; end: Local } => {
        const begin = f.i(i32.mul, blocks[axis], this.#args.get(`${axis}Block`));
        const end = f.i(i32.add, begin, this.#args.get(`${axis}Block`));
        return { begin, end: f.smaller(end, this.#args.get(axis)) };
      };
      const along = range("along"), across = range("across");
      const at = f.copy(across.begin);
      f.whileLess(at, across.end, () => {
        this.#line(batch, at, along);
        f.step(at, 1);
      });
    });
    return f.finish();
  }

  /** The place of a line's element: of the result, or of a load. */
  #place(base: string, batches: string, lines: string, batch: Local, line: Local, first: Local) {
    const f = this.#f, args = this.#args;
    const begin = f.i(i32.add, args.get(base), args.entry(batches, batch));
    return f.i(i32.add, f.i(i32.add, begin, args.entry(lines, line)), first);
  }

  #line(batch: Local, line: Local, { begin, end }: { begin: Local; end: Local }): void {
    const f = this.#f, none = f.integer(0), first = f.iWith(i32.shl, begin, 2);
    const result = f.copy(this.#place("result", "lineBatch", "lines", batch, line, first));
    const loads = this.#form.areAlong.map((isAlong, k): LineLoad => {
      const names = [`load${k}`, `load${k}Batch`, `load${k}Lines`] as const;
      const place = this.#place(...names, batch, line, isAlong ? first : none);
      return isAlong ? { pointer: f.copy(place) } : { all: f.load(v128.loadSplat, place) };
    });
    const at = f.copy(begin);
    const step = (count: 1 | 4): void => {
      const [load, store] = count === 4
        ? [v128.load, v128.store]
        : [v128.loadSplat, v128.store32Lane];
      const value = this.#value(f.load(load, result), loads, load);
      f.store(store, result, value, 0, count === 4 ? undefined : 0);
      f.step(result, 4 * count);
      for (const each of loads) if ("pointer" in each) f.step(each.pointer, 4 * count);
      f.step(at, count);
    };
    f.whileLess(at, f.iWith(i32.add, end, -3), () => step(4));
    f.whileLess(at, end, () => step(1));
  }

  #value(sum: Local, loads: readonly LineLoad[], load: number): Local {
    const f = this.#f, { exprs } = this.#form, values: Local[] = [];
    for (const e of exprs) values.push(this.#expr(e, values, sum, loads, load));
    return values.at(-1) ?? f.float(0);
  }

  #expr(
    e: Expr,
    values: readonly Local[],
    sum: Local,
    loads: readonly LineLoad[],
    load: number,
  ): Local {
    const f = this.#f, { exprs } = this.#form;
    switch (e.op) {
      case "contracted":
        return sum;
      case "load": {
        const from = loads[e.load]!;
        return "all" in from ? from.all : f.load(load, from.pointer);
      }
      case "constant":
        return this.#args.float(`constant${e.value}`);
      case "primitive": {
        const args = e.args.map((id) => values[id]!), { dtype } = exprs[e.args.at(-1)!]!;
        return writePrimitive(f, this.#math, e.fn, args, dtype, e.dtype);
      }
      case "cast":
        return writeCast(f, this.#math, values[e.args[0]!]!, exprs[e.args[0]!]!.dtype, e.dtype);
      default:
        throw new Error(`There are no lanes for ${e.op} behind a contraction`);
    }
  }
}
