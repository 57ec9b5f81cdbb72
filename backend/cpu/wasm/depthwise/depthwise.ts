/**
 * The WebAssembly of convolutions of channels by themselves. A thread stages some rows of a channel with their
 * zeros, which its caches hold, and computes the rows of the result that follow from them.
 */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";
import { KernelArguments } from "../winograd/arguments.ts";
import { Staging, stagingArguments } from "./staged_image.ts";

/** The arguments; offsets are in bytes. */
export const depthwiseArguments = [
  "image",
  "other",
  "result",
  /** Tables: where a plane begins in each. */
  "imagePlanes",
  "otherPlanes",
  "resultPlanes",
  /** Table: each vector of a row of the result. */
  "vectors",
  "count",
  /** Bands of rows of a plane, rows of the result, of a band, and of the image. */
  "bands",
  "rows",
  "bandRows",
  "height",
  /** Rows of zeros before the image. */
  "above",
  "imageRow",
  "resultRow",
  "stagedRow",
  /** Staged rows of all threads, and bytes of one thread's. */
  "scratch",
  "scratchBytes",
  ...stagingArguments,
] as const;

/** Steps and taps along an axis. */
export interface AxisForm {
  readonly taps: number;
  readonly stride: number;
  readonly dilation: number;
}

/** Dependencies of the code. */
export interface DepthwiseForm {
  readonly y: AxisForm;
  readonly x: AxisForm;
  /** Offset of each tap among a kernel's, in bytes. */
  readonly tapOffsets: readonly number[];
  /** Rows, and vectors of a row, that are computed together. */
  readonly rows: number;
  readonly vectors: number;
  /** The image's first element is an odd one of a staged row. */
  readonly isOdd: boolean;
  readonly isRelaxed: boolean;
}

/** The module that computes bands `begin` to `end` of planes. */
export function makeDepthwise(form: DepthwiseForm): Uint8Array<ArrayBuffer> {
  return new DepthwiseWriter(form).write();
}

class DepthwiseWriter {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #form: DepthwiseForm;
  readonly #args = new KernelArguments(this.#f, depthwiseArguments);
  readonly #staging: Staging;

  constructor(form: DepthwiseForm) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, form.isRelaxed);
    const get = (name: typeof stagingArguments[number]): Local => this.#args.get(name);
    this.#staging = new Staging(this.#f, get, form.x.stride, form.isOdd);
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, args = this.#args, { begin, end, thread } = FunctionBuilder.parameters;
    const scratch = f.i(
      i32.add,
      args.get("scratch"),
      f.i(i32.mul, thread, args.get("scratchBytes")),
    );
    f.loop(begin, end, 1, (task) => {
      const plane = f.i(i32.divU, task, args.get("bands"));
      const band = f.i(i32.remU, task, args.get("bands"));
      const first = f.i(i32.mul, band, args.get("bandRows"));
      const last = f.smaller(f.i(i32.add, first, args.get("bandRows")), args.get("rows"));
      this.#stage(scratch, plane, first, last);
      this.#compute(scratch, plane, first, last);
    });
    return f.finish();
  }

  /** Stages what rows `first` to `last` of the result are made of. */
  #stage(scratch: Local, plane: Local, first: Local, last: Local): void {
    const f = this.#f, args = this.#args, { stride, dilation, taps } = this.#form.y;
    const image = f.i(i32.add, args.get("image"), args.entry("imagePlanes", plane));
    const above = args.get("above"), to = f.copy(scratch);
    const begin = f.i(i32.sub, f.iWith(i32.mul, first, stride), above);
    const covered = f.iWith(i32.mul, f.i(i32.sub, last, first), stride);
    const end = f.i(
      i32.add,
      begin,
      f.iWith(i32.add, covered, (taps - 1) * dilation + 1 - stride),
    );
    f.loop(begin, end, 1, (row) => {
      f.branch(
        f.i(i32.ltU, row, args.get("height")),
        () =>
          this.#staging.copy(
            to,
            f.i(i32.add, image, f.i(i32.mul, row, args.get("imageRow"))),
          ),
        () => this.#staging.clear(to),
      );
      f.assign(to, f.i(i32.add, to, args.get("stagedRow")));
    });
  }

  /** Computes rows `first` to `last`; the last ones together overlap those before where they do not fit. */
  #compute(scratch: Local, plane: Local, first: Local, last: Local): void {
    const f = this.#f, args = this.#args, { rows, vectors, y } = this.#form;
    const kernel = f.i(i32.add, args.get("other"), args.entry("otherPlanes", plane));
    const result = f.i(i32.add, args.get("result"), args.entry("resultPlanes", plane));
    const latest = f.iWith(i32.add, last, -rows);
    f.loop(first, last, rows, (at) => {
      const row = f.smaller(at, latest), before = f.i(i32.sub, row, first);
      const from = f.i(
        i32.add,
        scratch,
        f.i(i32.mul, f.iWith(i32.mul, before, y.stride), args.get("stagedRow")),
      );
      const to = Array.from(
        { length: rows },
        (_, r) =>
          f.i(
            i32.add,
            result,
            f.i(i32.mul, f.iWith(i32.add, row, r), args.get("resultRow")),
          ),
      );
      f.loop(f.integer(0), args.get("count"), vectors, (vector) => {
        const table = f.wordAt(args.get("vectors"), vector);
        const places = Array.from(
          { length: vectors },
          (_, v) => f.loadNumber(i32.load, table, 4 * v),
        );
        const sums = this.#sums(places.map((place) => f.i(i32.add, from, place)), kernel);
        sums.forEach((line, r) =>
          line.forEach((sum, v) => f.store(v128.store, f.i(i32.add, to[r]!, places[v]!), sum))
        );
      });
    });
  }

  /** Sums of the windows of some rows of vectors: each vector of the image is read once for all rows. */
  #sums(bases: readonly Local[], kernel: Local): Local[][] {
    const f = this.#f, { rows, tapOffsets, x, y } = this.#form;
    const sums = Array.from({ length: rows }, () => bases.map(() => f.copyVector(f.float(0))));
    const step = this.#args.get("stagedRow"), parts = [bases.map((base) => f.copy(base))];
    if (x.stride > 1) parts.push(bases.map((base) => f.i(i32.add, base, this.#args.get("part"))));
    const height = (rows - 1) * y.stride + (y.taps - 1) * y.dilation + 1;
    for (let line = 0; line < height; line++) {
      const uses = sums.flatMap((sum, r) => {
        const at = line - r * y.stride, tap = at / y.dilation;
        return at >= 0 && Number.isInteger(tap) && tap < y.taps ? [{ sum, tap }] : [];
      });
      for (let tapX = 0; tapX < x.taps && uses.length > 0; tapX++) {
        const place = tapX * x.dilation, from = parts[place % x.stride]!;
        const offset = 4 * Math.floor(place / x.stride);
        const pixels = from.map((at) => f.load(v128.load, at, offset));
        for (const { sum, tap } of uses) {
          const factor = f.load(v128.loadSplat, kernel, tapOffsets[tap * x.taps + tapX]!);
          sum.forEach((total, v) => f.assign(total, this.#math.madd(factor, pixels[v]!, total)));
        }
      }
      for (const part of parts) part.forEach((at) => f.assign(at, f.i(i32.add, at, step)));
    }
    return sums;
  }
}
