/** The WebAssembly of gradients of the kernels of channels by themselves. */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, i32x4, v128 } from "../opcodes.ts";
import { KernelArguments } from "../winograd/arguments.ts";

/** The arguments; offsets are in bytes. */
export const gradientArguments = [
  "image",
  "other",
  "result",
  /** Tables: where a plane begins in each. */
  "imagePlanes",
  "otherPlanes",
  "resultPlanes",
  /** Tables: where each row begins, and each vector of a row. */
  "imageRows",
  "otherRows",
  "vectors",
  /** Tables: where summed images begin, or rows of large ones. */
  "summedImages",
  "summedOthers",
  /** Lengths of the tables of rows, of vectors and of summed images. */
  "rows",
  "count",
  "summed",
  /** Positions of the last vector that the one before has, too. */
  "overlap",
  "imageRow",
] as const;

/** Dependencies of the code. */
export interface GradientForm {
  readonly tapsY: number;
  readonly tapsX: number;
  /** Offset of each tap among a kernel's, in bytes. */
  readonly tapOffsets: readonly number[];
  readonly isRelaxed: boolean;
}

/** The module that sums the gradients of the kernels of planes `begin` to `end`. */
export function makeFilterGradient(form: GradientForm): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder(), math = new VectorMath(f, form.isRelaxed);
  const args = new KernelArguments(f, gradientArguments), { tapsY, tapsX, tapOffsets } = form;
  const { begin, end } = FunctionBuilder.parameters;
  f.loop(begin, end, 1, (plane) => {
    const image = f.i(i32.add, args.get("image"), args.entry("imagePlanes", plane));
    const gradient = f.i(i32.add, args.get("other"), args.entry("otherPlanes", plane));
    const result = f.i(i32.add, args.get("result"), args.entry("resultPlanes", plane));
    const step = f.copy(f.integer(0));
    for (let y = 0; y < tapsY; y++) {
      const totals = Array.from({ length: tapsX }, () => f.copyVector(f.float(0)));
      f.loop(f.integer(0), args.get("summed"), 1, (k) => {
        const pixels = f.i(i32.add, image, args.entry("summedImages", k));
        const others = f.i(i32.add, gradient, args.entry("summedOthers", k));
        const base = f.i(i32.add, pixels, step);
        // The sums of an image, or of its row, first: adding each product to the total would drift.
        const sums = imageSums(f, math, args, { pixels: base, gradient: others, taps: tapsX });
        sums.forEach((sum, x) => f.assign(totals[x]!, f.v(f32x4.add, totals[x]!, sum)));
      });
      totals.forEach((total, x) => {
        f.store(v128.store32Lane, result, sumOfLanes(f, total), tapOffsets[y * tapsX + x]!, 0);
      });
      f.assign(step, f.i(i32.add, step, args.get("imageRow")));
    }
  });
  return f.finish();
}

/** For each tap of a row the sums, in lanes, of an image's pixels times its gradient. */
function imageSums(
  f: FunctionBuilder,
  math: VectorMath,
  args: KernelArguments<typeof gradientArguments[number]>,
  { pixels, gradient, taps }: {
    readonly pixels: Local;
    readonly gradient: Local;
    readonly taps: number;
  },
): Local[] {
  const sums = Array.from({ length: taps }, () => f.copyVector(f.float(0)));
  const last = f.iWith(i32.add, args.get("count"), -1);
  const isNew = f.v(i32x4.leS, f.v(i32x4.splat, args.get("overlap")), f.lanes([0, 1, 2, 3]));
  f.loop(f.integer(0), args.get("rows"), 1, (row) => {
    const from = f.i(i32.add, pixels, args.entry("imageRows", row));
    const other = f.i(i32.add, gradient, args.entry("otherRows", row));
    const add = (vector: Local, mask: Local | null): void => {
      const place = args.entry("vectors", vector);
      const at = f.i(i32.add, from, place);
      // Both factors: infinity times a masked 0 would be NaN.
      const masked = (value: Local): Local => mask === null ? value : f.v(v128.and, value, mask);
      const g = masked(f.load(v128.load, f.i(i32.add, other, place)));
      sums.forEach((sum, x) =>
        f.assign(sum, math.madd(g, masked(f.load(v128.load, at, 4 * x)), sum))
      );
    };
    f.loop(f.integer(0), last, 1, (vector) => add(vector, null));
    add(last, isNew);
  });
  return sums;
}

/** The sum of a vector's lanes, in the first one. */
function sumOfLanes(f: FunctionBuilder, vector: Local): Local {
  const pairs = f.v(f32x4.add, vector, f.shuffle32(vector, vector, [2, 3, 0, 1]));
  return f.v(f32x4.add, pairs, f.shuffle32(pairs, pairs, [1, 0, 3, 2]));
}
