/** Chirps e^(-π i k² / n) on GPUs, and numbers multiplied by them, for transforms of any length. */
import { callDeviceKernel } from "../../ops/custom/device_kernel.ts";
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { ComplexTensor } from "../../ops/complex_tensor.ts";
import { multiplied, turnText } from "./turns.ts";

/** Work-items of a group. */
const ITEMS = 256;

/** The text of a kernel whose items have number `k` of `to` of a line, and its square modulo 2 n. */
function chirpText(dtype: RealType, name: string, parameters: string, body: string): string {
  return `${dtype === "float64" ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" : ""}
#define T ${dtype === "float64" ? "double" : "float"}
${turnText(dtype)}
kernel __attribute__((reqd_work_group_size(${ITEMS}, 1, 1)))
void ${name}(global const T* restrict re, global const T* restrict im, global T* restrict yr,
  global T* restrict yi, int n, ${parameters}) {
  const int groups = (to + ${ITEMS - 1}) / ${ITEMS};
  const int k = get_group_id(0) % groups * ${ITEMS} + get_local_id(0);
  const size_t line = get_group_id(0) / groups;
  if (k >= to) return;
  T c, s;
  ${body}
}
`;
}

const square = (k: string): string =>
  `turn((uint)((ulong)(${k}) * (ulong)(${k}) % (ulong)(2 * (long)n)), 2 * n, &c, &s);`;

/** The first `n` numbers of each line by the chirp and a factor, in lines of `to`; zeros behind them. */
export function chirped(x: ComplexTensor, n: number, to: number, scale: number): ComplexTensor {
  const from = x.shape.at(-1)!, shape = [...x.shape.slice(0, -1), to];
  const body = `T x = 0, y = 0;
  if (k < n) {
    x = re[line * from + k] * scale;
    y = im[line * from + k] * scale;
    ${square("k")}
    ${multiplied({ re: "x", im: "y" }, "c", "s")}
  }
  yr[line * to + k] = x;
  yi[line * to + k] = y;`;
  return called("chirped_lines", x, shape, "int from, int to, T scale", body, [n, from, to, scale]);
}

/** The conjugate chirp of both signs of k, in a line of `long` that begins with 0. */
export function chirpOf(x: ComplexTensor, n: number, long: number): ComplexTensor {
  const body = `const int back = to - k, m = k < n ? k : back;
  c = s = 0;
  if (m < n) { ${square("m")} }
  yr[line * to + k] = c;
  yi[line * to + k] = s;`;
  return called("fourier_chirp", x, [long], "int to", body, [n, long]);
}

function called(
  name: string,
  x: ComplexTensor,
  shape: readonly number[],
  parameters: string,
  body: string,
  numbers: readonly number[],
): ComplexTensor {
  const dtype = x.dtype as RealType, to = shape.at(-1)!;
  const lines = shape.slice(0, -1).reduce((all, side) => all * side, 1);
  const [real, imag] = callDeviceKernel(
    { name, key: dtype, items: ITEMS, source: () => chirpText(dtype, name, parameters, body) },
    [x.real, x.imag],
    [{ shape, dtype }, { shape, dtype }],
    numbers,
    lines * Math.ceil(to / ITEMS),
  );
  return new ComplexTensor(real!, imag!);
}
