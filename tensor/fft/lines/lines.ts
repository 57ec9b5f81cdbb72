/** Transforms of lines on GPUs: a launch, whose text is written for the length and the layout. */
import { callDeviceKernel, localBytesOf } from "../../ops/custom/device_kernel.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { ComplexTensor } from "../../ops/complex_tensor.ts";
import { itemsOf, lineKernel, widthOf } from "./line_kernel.ts";

/** Lines of a tensor: samples of `count` of them, one after the other. */
export interface Lines {
  readonly n: number;
  readonly count: number;
  readonly scale: number;
  /** Result k of line l of a sample is turned by -2 π k l / turn; 0 for none. */
  readonly turn: number;
  /** Elements between lines, and between the numbers of a line. */
  readonly reads: readonly [line: number, step: number];
  readonly writes: readonly [line: number, step: number];
}

/** Lines beside each other that a group has at least, so that it fetches neighbours. */
const MIN_ACROSS = 4;
/** Longer lines would keep more numbers in registers than there are. */
const MAX_LINE = 8192;

/** Numbers of the longest line that a group holds, or lines beside each other. */
export function maxLine({ dtype, device }: ComplexTensor, isAcross: boolean): number {
  const numbers = localBytesOf(device) / (dtype === "float64" ? 8 : 4) * 32 / 33 - 1;
  return Math.min(MAX_LINE, Math.floor(isAcross ? numbers / MIN_ACROSS : numbers));
}

/** The forward transforms; the shape stays that of `x`. */
export function transformLines(x: ComplexTensor, lines: Lines): ComplexTensor {
  const { n, count, scale, turn, reads, writes } = lines, { shape, device } = x;
  const dtype = x.dtype as RealType;
  const maxItems = device.clDevice!.maxWorkGroupSize;
  const layout = {
    dtype,
    n,
    readsAcross: reads[1] > 1,
    writesAcross: writes[1] > 1,
    turn,
    maxItems,
  };
  const width = widthOf(layout, count, localBytesOf(device)), plan = { ...layout, width };
  const name = "fourier_lines", groups = x.size / n / count * Math.ceil(count / width);
  const [real, imag] = callDeviceKernel(
    { name, key: JSON.stringify(plan), items: itemsOf(plan), source: () => lineKernel(name, plan) },
    [x.real, x.imag],
    [{ shape, dtype }, { shape, dtype }],
    [count, ...reads, ...writes, scale],
    groups,
  );
  return new ComplexTensor(real!, imag!);
}
