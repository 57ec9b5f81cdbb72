/** The WebAssembly that transforms the 3x3 kernels of a convolution: rows of its products. */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";
import { STEP_BYTES } from "./block_product.ts";
import { storePoints } from "./patches.ts";
import { alongBoth, TAPS, Transforms } from "./transforms.ts";

/** Taps of a kernel. */
const KERNEL_TAPS = TAPS * TAPS;
/** Channels whose kernels are loaded together. */
export const SIDE_BY_SIDE = 4;

/** The arguments of kernels' transforms; offsets are in bytes. */
export const filterNames = [
  "filters",
  /** Tables of offsets: eight for each group of rows, one for each channel, one for each tap. */
  "rowOffsets",
  "filterChannels",
  "tapOffsets",
  "channels",
] as const;

/** The arguments of {@linkcode makeFilterTransform}. */
export const filterArguments = [
  ...filterNames,
  /** For each point, group and channel eight floats, one a row of the group. */
  "rows",
  "rowsPlane",
] as const;

/** The module that transforms the kernels of groups `begin` to `end`. */
export function makeFilterTransform(
  areSideBySide: boolean,
  isRelaxed: boolean,
): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder(), math = new VectorMath(f, isRelaxed);
  const args = new KernelArguments(f, filterArguments);
  const filters = new FilterTransform(f, args, new Transforms(f, math), areSideBySide);
  const { begin, end } = FunctionBuilder.parameters;
  const bytes = f.iWith(i32.mul, args.get("channels"), STEP_BYTES);
  f.loop(begin, end, 1, (group) => {
    const to = f.i(i32.add, args.get("rows"), f.i(i32.mul, group, bytes));
    filters.write(group, to, args.get("rowsPlane"));
  });
  return f.finish();
}

/** Arguments of any kernel that has those of a transform. */
type FilterArguments = Pick<
  KernelArguments<typeof filterNames[number]>,
  "get" | "entry" | "fourEntries"
>;

/** Writes the transform of a group's kernels. */
export class FilterTransform {
  readonly #f: FunctionBuilder;
  readonly #args: FilterArguments;
  readonly #transforms: Transforms;
  readonly #areSideBySide: boolean;

  /**
   * @param areSideBySide Kernels of four channels are 36 floats that lie side by side.
   */
  constructor(
    f: FunctionBuilder,
    args: FilterArguments,
    transforms: Transforms,
    areSideBySide: boolean,
  ) {
    this.#f = f;
    this.#args = args;
    this.#transforms = transforms;
    this.#areSideBySide = areSideBySide;
  }

  /** Writes a group's rows to `to`, for each point `plane` bytes apart. */
  write(group: Local, to: Local, plane: Local): void {
    const f = this.#f, args = this.#args, step = this.#areSideBySide ? SIDE_BY_SIDE : 1;
    f.loop(f.integer(0), f.integer(8), 4, (half) => {
      const table = f.i(i32.add, f.iWith(i32.shl, group, 3), half);
      const rows = args.fourEntries("rowOffsets", table)
        .map((row) => f.i(i32.add, args.get("filters"), row));
      const at = f.copy(f.i(i32.add, to, f.iWith(i32.shl, half, 2)));
      f.loop(f.integer(0), args.get("channels"), step, (channel) => {
        const offset = args.entry("filterChannels", channel);
        const bases = rows.map((row) => f.i(i32.add, row, offset));
        for (const taps of this.#areSideBySide ? this.#fourChannels(bases) : [this.#taps(bases)]) {
          const line = (y: number): Local[] => taps.slice(TAPS * y, TAPS * (y + 1));
          const points = alongBoth(TAPS, line, (each) => this.#transforms.taps(each));
          storePoints(f, points, at, plane);
          f.step(at, STEP_BYTES);
        }
      });
    });
  }

  /** The taps of four kernels, wherever each lies. */
  #taps(bases: readonly Local[]): Local[] {
    const f = this.#f;
    return Array.from({ length: KERNEL_TAPS }, (_, k) => {
      const tap = this.#args.entry("tapOffsets", f.integer(k));
      return f.gather(bases.map((base) => f.i(i32.add, base, tap)));
    });
  }

  /** The taps of four rows' kernels of four channels. */
  #fourChannels(bases: readonly Local[]): Local[][] {
    const f = this.#f;
    const taps = Array.from(
      { length: KERNEL_TAPS },
      (_, k) => f.transpose(bases.map((base) => f.load(v128.load, base, 16 * k))),
    ).flat();
    return Array.from(
      { length: SIDE_BY_SIDE },
      (_, k) => taps.slice(KERNEL_TAPS * k, KERNEL_TAPS * (k + 1)),
    );
  }
}
