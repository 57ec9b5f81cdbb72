/**
 * Scatters of whole rows in WebAssembly: an embedding's gradient, `indexAdd`, `bincount`, and those
 * of single elements along the last axis. A part is a range of the target's rows. It copies them
 * from the base, then goes through all indices and adds the sources of its own rows in order, so
 * the result is the same for any number of threads.
 *
 * This folder (`special/`) has kernels whose loops carry state. It imports `kernel/`, `graph/`,
 * `script/` and the assembler of `wasm/`. Kernels come from `cpu_backend.ts`; what has no form here
 * is left to `script/`.
 */
import type { DType } from "../../../graph/dtype.ts";
import { sizeOf } from "../../../graph/shape.ts";
import { scatterCombiner } from "../../../graph/reductions.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import type { CheckIndex, PartialRunner } from "../../script/runner.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { type ElementBytes, elementBytes, kindOf, LaneAccess } from "../lanes.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { writePrimitive } from "../loops/primitives.ts";
import { i32 } from "../opcodes.ts";
import type { WasmRuntime } from "../runtime.ts";

type Scatter = SpecialKernel & { readonly op: "scatter" };

/** The arguments, in order; addresses and steps are in bytes. */
const scatterArguments = [
  "base",
  "indices",
  "source",
  "target",
  /** Rows of the target and of the source, for each coordinate before the axis. */
  "rows",
  "sources",
  /** From one index to the next, and from those of one coordinate before the axis to the next. */
  "step",
  "outerStep",
  /** Elements of a row. */
  "columns",
  /** An index that was out of range: its low and high word, and 1 where there was one. */
  "faultLow",
  "faultHigh",
  "isFault",
] as const;

/** Elements of a vector. */
const LANES = 4;
/** Addresses are 32-bit numbers of bytes. */
const MAX_ELEMENTS = 2 ** 28;
/** Nanoseconds to look at an index, to copy an element, to add one. */
const INDEX_COST = 1, COPY_COST = 0.3, ADD_COST = 0.5;
/** Parts for each thread where rows are long: the threads end at about the same time. */
const PARTS_PER_THREAD = 4;
/** Shorter rows get one part a thread: looking at the indices costs as much as adding. */
const LONG_ROW = 16;
/** Threads that share a scatter of single elements. */
const MIN_COLUMN_THREADS = 4;

/** The runner of a scatter of rows, or null for another one; `check` is told of indices that are out of range. */
export function rowScatterRunner(
  kernel: Scatter,
  runtime: WasmRuntime,
  check: CheckIndex,
): PartialRunner | null {
  const { inputs, shape, sourceShape, indexStrides, axis, mode, opName, output } = kernel;
  const outerStride = outerStrideOf(kernel);
  if (outerStride === null || !hasWords(kernel) || mode === "write") return null;
  const outer = sizeOf(shape.slice(0, axis)), columns = sizeOf(shape.slice(axis + 1));
  const form = { dtype: output.dtype, index: inputs[1]!, mode, isColumn: columns === 1 };
  const bytes = new ScatterWriter(form, runtime.relaxed).write();
  const compiled = runtime.compile(bytes);
  const rows = shape[axis]!, sources = sourceShape[axis]!, range = outer * rows;
  const width = indexBytes[inputs[1]!]!, step = indexStrides[axis]! * width;
  const copying = range * columns * COPY_COST;
  const cost = copying + outer * sources * (INDEX_COST + columns * ADD_COST);
  const { size: threads } = runtime.threads;
  // A part of whole coordinates before the axis looks at its own indices alone.
  const unit = outer >= threads ? rows : 1;
  const parts = unit > 1 ? threads * PARTS_PER_THREAD : partsFor(columns, threads);
  const grain = Math.max(1, Math.ceil(range / unit / parts)) * unit;
  return {
    source: `// WebAssembly, ${bytes.length} bytes: rows are scattered`,
    run(reads, writes) {
      const { words, memory } = runtime;
      const places = [...reads, ...writes].map((block) => memory.addressOf(block));
      if (places.includes(null)) return false;
      words.set([
        ...places as number[],
        rows,
        sources,
        step,
        outerStride * width,
        columns,
        0,
        0,
        0,
      ]);
      runtime.run(compiled, range, grain, cost);
      const [low, high, isFault] = words.subarray(scatterArguments.indexOf("faultLow"));
      if (isFault) check(high! * 2 ** 32 + (low! >>> 0), rows, opName);
      return true;
    },
  };
}

/** Few threads are slower than one at single elements: each guesses wrong which are its own. */
function partsFor(columns: number, threads: number): number {
  if (columns === 1 && threads < MIN_COLUMN_THREADS) return 1;
  return threads * (columns < LONG_ROW ? 1 : PARTS_PER_THREAD);
}

/**
 * Stride of an index that moves a whole row of the source: how far apart the indices of one
 * coordinate before the axis and the next lie, 0 where they share theirs; else null.
 */
function outerStrideOf({ indexStrides, shape, sourceShape, axis }: Scatter): number | null {
  const isRow = shape.every((size, k) =>
    k === axis || sourceShape[k] === size && (k < axis || size === 1 || indexStrides[k] === 0)
  );
  if (!isRow) return null;
  let stride = 0, count = 1;
  for (let k = axis - 1; k >= 0; k--) {
    if (shape[k] === 1) continue;
    if (count === 1) stride = indexStrides[k]!;
    if (indexStrides[k] !== stride * count) return null;
    count *= shape[k]!;
  }
  return stride;
}

/** Bytes of an index. */
const indexBytes: Readonly<Partial<Record<DType, number>>> = { int32: 4, int64: 8, uint8: 1 };

/** True where elements are numbers in lanes, and addresses are 32-bit numbers. */
function hasWords(kernel: Scatter): boolean {
  const { inputs, output: { dtype, size }, sourceShape } = kernel;
  if (kindOf(dtype) === "mask" || needsWideIndices(kernel)) return false;
  return inputs[1]! in indexBytes && Math.max(size, sizeOf(sourceShape)) < MAX_ELEMENTS;
}

/** Dependencies of a module. */
interface ScatterForm {
  readonly dtype: DType;
  readonly index: DType;
  readonly mode: Scatter["mode"];
  /** Rows have one element. */
  readonly isColumn: boolean;
}

class ScatterWriter {
  readonly #f = new FunctionBuilder();
  readonly #args = new KernelArguments(this.#f, scatterArguments);
  readonly #lanes: LaneAccess;
  readonly #math: VectorMath;
  readonly #dtype: DType;
  readonly #index: DType;
  readonly #mode: Scatter["mode"];
  readonly #isColumn: boolean;

  constructor({ dtype, index, mode, isColumn }: ScatterForm, relaxed: boolean) {
    this.#math = new VectorMath(this.#f, relaxed);
    this.#lanes = new LaneAccess(this.#f, this.#math);
    this.#dtype = dtype;
    this.#index = index;
    this.#mode = mode;
    this.#isColumn = isColumn;
  }

  get #bytes(): ElementBytes {
    return elementBytes(this.#dtype);
  }

  /** The module that computes rows `begin` to `end` of the target. */
  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end } = FunctionBuilder.parameters;
    const rowBytes = f.i(i32.mul, this.#args.get("columns"), f.integer(this.#bytes));
    const target = f.i(i32.add, this.#args.get("target"), f.i(i32.mul, begin, rowBytes));
    const base = f.i(i32.add, this.#args.get("base"), f.i(i32.mul, begin, rowBytes));
    f.branch(f.i(i32.xor, target, base), () => {
      f.copyBytes(target, base, f.i(i32.mul, f.i(i32.sub, end, begin), rowBytes));
    });
    // The rows of a part may belong to several coordinates before the axis.
    const outer = f.number(), first = f.number();
    f.assign(outer, f.i(i32.divU, begin, this.#args.get("rows")));
    f.assign(first, f.i(i32.mul, outer, this.#args.get("rows")));
    f.whileLess(first, end, () => {
      this.#sources(outer, first, rowBytes);
      f.step(outer, 1);
      f.assign(first, f.i(i32.add, first, this.#args.get("rows")));
    });
    return f.finish();
  }

  /** Goes through the indices; `first` is the target's row that index 0 stands for. */
  #sources(outer: Local, first: Local, rowBytes: Local): void {
    const f = this.#f, { begin, end } = FunctionBuilder.parameters;
    const at = f.number(), source = f.number(), count = f.number();
    f.assign(
      at,
      f.i(i32.add, this.#args.get("indices"), f.i(i32.mul, outer, this.#args.get("outerStep"))),
    );
    const before = f.i(i32.mul, f.i(i32.mul, outer, this.#args.get("sources")), rowBytes);
    f.assign(source, f.i(i32.add, this.#args.get("source"), before));
    f.assign(count, f.integer(0));
    const length = f.i(i32.sub, end, begin);
    f.whileLess(count, this.#args.get("sources"), () => {
      const { low, isValid } = this.#checkedIndex(at);
      const row = f.i(i32.add, first, low);
      const isOwn = f.i(i32.ltU, f.i(i32.sub, row, begin), length);
      f.branch(f.i(i32.and, isValid, isOwn), () => {
        this.#row(f.i(i32.add, this.#args.get("target"), f.i(i32.mul, row, rowBytes)), source);
      });
      f.assign(at, f.i(i32.add, at, this.#args.get("step")));
      f.assign(source, f.i(i32.add, source, rowBytes));
      f.step(count, 1);
    });
  }

  /** The index at a place, and 1 where the axis has it; else it is left behind for the host. */
  #checkedIndex(at: Local): { low: Local; isValid: Local } {
    const f = this.#f;
    const isByte = this.#index === "uint8";
    const low = f.loadNumber(isByte ? i32.loadByte : i32.load, at);
    const high = this.#index === "int64"
      ? f.loadNumber(i32.load, at, 4)
      : f.iWith(i32.shrS, low, 31);
    const isSmall = f.i(i32.ltU, low, this.#args.get("rows"));
    const isValid = f.i(i32.and, isSmall, f.iWith(i32.eq, high, 0));
    f.branch(f.iWith(i32.xor, isValid, 1), () => {
      this.#args.set("faultLow", low);
      this.#args.set("faultHigh", high);
      this.#args.set("isFault", f.integer(1));
    });
    return { low, isValid };
  }

  /** Joins a row of the source with one of the target, or puts it there. */
  #row(to: Local, source: Local): void {
    const f = this.#f, bytes = this.#bytes;
    if (this.#isColumn) return this.#store(1, to, this.#joined(1, to, source));
    const target = f.number(), from = f.number(), left = f.number();
    f.assign(target, to);
    f.assign(from, source);
    f.assign(left, this.#args.get("columns"));
    for (const lanes of [LANES, 1] as const) {
      f.whileLess(f.integer(lanes - 1), left, () => {
        this.#store(lanes, target, this.#joined(lanes, target, from));
        f.step(target, lanes * bytes);
        f.step(from, lanes * bytes);
        f.step(left, -lanes);
      });
    }
  }

  #load(lanes: 1 | 4, at: Local): Local {
    const bytes = this.#bytes, dtype = this.#dtype;
    return lanes === 1
      ? this.#lanes.loadAll(dtype, bytes, at)
      : this.#lanes.loadFour(dtype, bytes, at, 0);
  }

  #joined(lanes: 1 | 4, target: Local, from: Local): Local {
    const value = this.#load(lanes, from);
    const join = scatterCombiner(this.#mode), dtype = this.#dtype;
    if (join === null) return value;
    return writePrimitive(
      this.#f,
      this.#math,
      join,
      [this.#load(lanes, target), value],
      dtype,
      dtype,
    );
  }

  #store(lanes: 1 | 4, at: Local, value: Local): void {
    const bytes = this.#bytes, dtype = this.#dtype;
    if (lanes === 1) this.#lanes.storeEach(dtype, bytes, [at], value);
    else this.#lanes.storeFour(dtype, bytes, at, 0, value);
  }
}
