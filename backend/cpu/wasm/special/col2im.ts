/**
 * Windows added up to the image that they were cut from, in WebAssembly: the gradient of unfolding,
 * and of pooling whose windows overlap. A part is a range of the image's rows, along its last axis.
 * Each row takes the windows that have it, in their order, so the result is the same for any number
 * of threads.
 */
import { sizeOf, stridesOf } from "../../../graph/shape.ts";
import { needsWideIndices } from "../../../kernel/index_range.ts";
import type { SpecialKernel } from "../../../kernel/kernel.ts";
import type { Runner } from "../../script/runner.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { f32x4, i32, v128 } from "../opcodes.ts";
import type { WasmRuntime } from "../runtime.ts";

type Col2im = SpecialKernel & { readonly op: "col2im" };

/**
 * Arguments of an axis: sizes, steps in elements of the image, steps in bytes of the windows.
 */
const axisArguments = [
  "size",
  "positions",
  "taps",
  "stride",
  "dilation",
  "positionBytes",
  "tapBytes",
] as const;

type AxisArgument = typeof axisArguments[number];

/** Elements of a vector. */
const LANES = 4;
/** Addresses are 32-bit numbers of bytes. */
const MAX_ELEMENTS = 2 ** 28;
/** Nanoseconds to add an element of a window, and for what a row costs apart from that. */
const ADD_COST = 0.6, ROW_COST = 30;

/**
 * The runner of a sum of windows of floats, or null for others. `fallback` makes one for blocks
 * that lie outside the memory that WebAssembly sees.
 */
export function col2imRunner(
  kernel: Col2im,
  runtime: WasmRuntime,
  fallback: () => Runner,
): Runner | null {
  const { batch, shape, positions, kernel: taps, output } = kernel;
  const windows = sizeOf(positions) * sizeOf(taps);
  const isSmall = Math.max(output.size, batch * windows) < MAX_ELEMENTS;
  if (output.dtype !== "float32" || !isSmall || needsWideIndices(kernel)) return null;
  const bytes = new Col2imWriter(shape.length, kernel.stride.at(-1)!).write();
  const compiled = runtime.compile(bytes);
  const numbers = [4 * windows, ...axisNumbers(kernel)];
  const rows = batch * sizeOf(shape.slice(0, -1));
  const cost = rows * ROW_COST + batch * windows * ADD_COST;
  let elsewhere: Runner | null = null;
  return {
    source: `// WebAssembly, ${bytes.length} bytes: windows are added up`,
    run(reads, writes) {
      const { words, memory } = runtime;
      const places = [...reads, ...writes].map((block) => memory.addressOf(block));
      if (places.includes(null)) return (elsewhere ??= fallback()).run(reads, writes);
      words.set([...places as number[], ...numbers]);
      runtime.run(compiled, rows, 1, cost);
    },
  };
}

/** The arguments of all axes, in order. */
function axisNumbers({ shape, positions, kernel: taps, stride, dilation }: Col2im): number[] {
  const steps = stridesOf([...positions, ...taps]), rank = shape.length;
  return shape.flatMap((size, k) => {
    const numbers: Readonly<Record<AxisArgument, number>> = {
      size,
      positions: positions[k]!,
      taps: taps[k]!,
      stride: stride[k]!,
      dilation: dilation[k]!,
      positionBytes: 4 * steps[k]!,
      tapBytes: 4 * steps[rank + k]!,
    };
    return axisArguments.map((name) => numbers[name]);
  });
}

class Col2imWriter {
  readonly #f = new FunctionBuilder();
  readonly #rank: number;
  /** Windows that begin at every place, or at every second one, are added in vectors. */
  readonly #stride: number;

  constructor(rank: number, stride: number) {
    this.#rank = rank;
    this.#stride = stride;
  }

  #word(place: number): Local {
    const f = this.#f, { args } = FunctionBuilder.parameters;
    return f.once(`word ${place}`, () => f.loadNumber(i32.load, args, 4 * place));
  }

  #arg(axis: number, name: AxisArgument): Local {
    return this.#word(3 + axis * axisArguments.length + axisArguments.indexOf(name));
  }

  /** The module that computes rows `begin` to `end` of the images. */
  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end } = FunctionBuilder.parameters, last = this.#rank - 1;
    const rowBytes = f.iWith(i32.shl, this.#arg(last, "size"), 2);
    f.loop(begin, end, 1, (row) => {
      const target = f.i(i32.add, this.#word(1), f.i(i32.mul, row, rowBytes));
      f.clearBytes(target, rowBytes);
      const places: Local[] = [];
      let image = row;
      for (let axis = last - 1; axis >= 0; axis--) {
        places[axis] = f.i(i32.remU, image, this.#arg(axis, "size"));
        image = f.i(i32.divU, image, this.#arg(axis, "size"));
      }
      const windows = f.i(i32.add, this.#word(0), f.i(i32.mul, image, this.#word(2)));
      this.#tapsOf(0, places, windows, (from) => this.#row(target, from));
    });
    return f.finish();
  }

  /** Goes through the windows that have a row, along the axes before the last. */
  #tapsOf(
    axis: number,
    places: readonly Local[],
    windows: Local,
    body: (from: Local) => void,
  ): void {
    const f = this.#f, place = places[axis];
    if (place === undefined) return body(windows);
    this.#eachTap(axis, (tap) => {
      const moved = f.i(i32.sub, place, f.i(i32.mul, tap, this.#arg(axis, "dilation")));
      const stride = this.#arg(axis, "stride");
      const position = f.i(i32.divU, moved, stride);
      f.leavable((leaveIfZero) => {
        // A number below zero is large without a sign.
        leaveIfZero(f.i(i32.ltU, moved, this.#arg(axis, "size")));
        leaveIfZero(f.i(i32.eq, f.i(i32.mul, position, stride), moved));
        leaveIfZero(f.i(i32.ltU, position, this.#arg(axis, "positions")));
        const atPosition = f.i(i32.mul, position, this.#arg(axis, "positionBytes"));
        const atTap = f.i(i32.mul, tap, this.#arg(axis, "tapBytes"));
        const from = f.i(i32.add, f.i(i32.add, windows, atPosition), atTap);
        this.#tapsOf(axis + 1, places, from, body);
      });
    });
  }

  /** From the last tap on: windows are gone through in their order. */
  #eachTap(axis: number, body: (tap: Local) => void): void {
    const f = this.#f, left = f.copy(this.#arg(axis, "taps"));
    f.whileLess(f.integer(0), left, () => {
      f.step(left, -1);
      body(left);
    });
  }

  /** Adds the windows along the last axis to a row. */
  #row(target: Local, windows: Local): void {
    const f = this.#f, last = this.#rank - 1, stride = this.#arg(last, "stride");
    this.#eachTap(last, (tap) => {
      const first = f.i(i32.mul, tap, this.#arg(last, "dilation"));
      const room = f.i(i32.sub, this.#arg(last, "size"), first);
      const fitting = f.i(i32.divU, f.iWith(i32.add, f.i(i32.add, room, stride), -1), stride);
      const count = f.smaller(fitting, this.#arg(last, "positions"));
      // A window may end behind the image.
      const left = f.copy(f.choose(f.i(i32.ltS, f.integer(0), room), count, f.integer(0)));
      const to = f.copy(f.i(i32.add, target, f.iWith(i32.shl, first, 2)));
      const tapBytes = f.i(i32.mul, tap, this.#arg(last, "tapBytes"));
      const from = f.copy(f.i(i32.add, windows, tapBytes));
      if (this.#stride <= 2) this.#adding(LANES, { from, to, left });
      this.#adding(1, { from, to, left });
    });
  }

  /** Adds elements of windows, so many at a time. */
  #adding(lanes: 1 | 4, { from, to, left }: Readonly<Record<"from" | "to" | "left", Local>>): void {
    const f = this.#f, last = this.#rank - 1, step = this.#arg(last, "positionBytes");
    // Vectors at every second place write the place behind: another window must have its own there.
    const least = lanes === LANES && this.#stride === 2 ? LANES : lanes - 1;
    f.whileLess(f.integer(least), left, () => {
      const places = [from];
      while (places.length < lanes) places.push(f.i(i32.add, places.at(-1)!, step));
      const zero = f.splat(0);
      const value = places.reduce(
        (vector, place, lane) => f.loadLane(v128.load32Lane, place, vector, lane),
        zero,
      );
      if (lanes === 1) {
        const sum = f.v(f32x4.add, f.load(v128.loadSplat, to), value);
        f.store(v128.store32Lane, to, sum, 0, 0);
      } else {
        const parts = this.#stride === 1
          ? [value]
          : [[0, 4, 1, 4], [2, 4, 3, 4]].map((order) => f.shuffle32(value, zero, order));
        parts.forEach((part, k) => {
          const sum = f.v(f32x4.add, f.load(v128.load, to, 16 * k), part);
          f.store(v128.store, to, sum, 16 * k);
        });
      }
      f.assign(from, f.i(i32.add, places.at(-1)!, step));
      const stride = this.#arg(last, "stride");
      f.assign(to, f.i(i32.add, to, f.iWith(i32.shl, stride, lanes === LANES ? 4 : 2)));
      f.step(left, -lanes);
    });
  }
}
