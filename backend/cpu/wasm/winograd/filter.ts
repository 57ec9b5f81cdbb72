/** The WebAssembly that transforms the 3x3 kernels of a convolution: rows of its products. */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { f32x4, i32, v128 } from "../opcodes.ts";
import { KernelArguments } from "./arguments.ts";
import { STEP_BYTES } from "./block_product.ts";
import { storePoints } from "./patches.ts";
import { alongBoth, PATCH, scaleAt, TAPS, Transforms } from "./transforms.ts";

/** The arguments of {@linkcode makeFilterTransform}; offsets are in bytes. */
export const filterArguments = [
  "filters",
  /** For each point, group and channel eight floats, one a row of the group. */
  "rows",
  "rowsPlane",
  /** Tables of offsets: eight for each group of rows, one for each channel, one for each tap. */
  "rowOffsets",
  "channelOffsets",
  "tapOffsets",
  "channels",
] as const;

/** The module that transforms kernels `begin` to `end`, by group and channel. */
export function makeFilterTransform(isRelaxed: boolean): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder(), math = new VectorMath(f, isRelaxed);
  const args = new KernelArguments(f, filterArguments), transforms = new Transforms(f, math);
  const { begin, end } = FunctionBuilder.parameters;
  const taps = Array.from(
    { length: TAPS * TAPS },
    (_, k) => args.entry("tapOffsets", f.integer(k)),
  );
  f.loop(begin, end, 1, (task) => {
    const channel = f.i(i32.remU, task, args.get("channels"));
    const group = f.i(i32.divU, task, args.get("channels"));
    const base = f.i(i32.add, args.get("filters"), args.entry("channelOffsets", channel));
    const to = f.i(i32.add, args.get("rows"), f.iWith(i32.mul, task, STEP_BYTES));
    for (const half of [0, 4]) {
      const first = f.iWith(i32.add, f.iWith(i32.shl, group, 3), half);
      const rows = args.fourEntries("rowOffsets", first).map((row) => f.i(i32.add, base, row));
      const read = (y: number): Local[] =>
        taps.slice(TAPS * y, TAPS * (y + 1)).map((tap) => gather(f, rows, tap));
      const points = alongBoth(TAPS, read, (line) => transforms.taps(line)).map((row, y) =>
        row.map((value, x) => f.v(f32x4.mul, value, f.float(scaleAt(PATCH * y + x))))
      );
      storePoints(f, points, f.iWith(i32.add, to, 4 * half), args.get("rowsPlane"));
    }
  });
  return f.finish();
}

/** An element of each of four kernels. */
function gather(f: FunctionBuilder, rows: readonly Local[], offset: Local): Local {
  const [first, ...others] = rows.map((row) => f.i(i32.add, row, offset));
  return others.reduce(
    (vector, at, k) => f.loadLane(v128.load32Lane, at, vector, k + 1),
    f.load(v128.load32Zero, first!),
  );
}
