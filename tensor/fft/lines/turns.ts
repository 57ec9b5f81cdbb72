/** Statements of OpenCL C that turn complex numbers: by computed angles, and by their products. */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import type { Pair } from "./butterfly.ts";

/** Statements that turn number r by r step / n: by computed turns for powers of two, others by their products. */
export function turnedBy(names: readonly Pair[], step: string, n: number): string[] {
  const lines: string[] = [];
  for (let r = 1; r < names.length; r++) {
    const high = 2 ** Math.floor(Math.log2(r)), low = r - high;
    lines.push(
      low === 0
        ? `T c${r}, s${r}; turn(${r} * ${step}, ${n}, &c${r}, &s${r});`
        : `const T c${r} = c${high} * c${low} - s${high} * s${low}, s${r} = c${high} * s${low} + s${high} * c${low};`,
      multiplied(names[r]!, `c${r}`, `s${r}`),
    );
  }
  return lines;
}

/** Statements that give names the values found; each reads what is declared, not the names. */
export function keep(names: readonly Pair[], found: readonly Pair[], part: keyof Pair): string[] {
  return names.map((name, k) => `${name[part]} = ${found[k]![part]};`);
}

/** A statement that turns a number, of whose angle the cosine and sine are given, backward. */
export function multiplied({ re, im }: Pair, c: string, s: string, type = "T"): string {
  return `{ const ${type} before = ${re}; ${re} = before * ${c} + ${im} * ${s}; ${im} = ${im} * ${c} - before * ${s}; }`;
}

/** Coefficients of the series of sine and cosine, of as many terms as angles up to π / 4 need. */
function series(type: string, first: number, terms: number, suffix: string): string {
  const all: number[] = [];
  for (let k = 0, value = 1; k < terms; k++) {
    all.push(value);
    value /= -(2 * k + first + 1) * (2 * k + first + 2);
  }
  const text = (value: number) =>
    `(${type})(${/[.e]/.test(`${value}`) ? value : `${value}.0`}${suffix})`;
  return all.reduceRight(
    (sum, value) => sum === "" ? text(value) : `fma(${sum}, square, ${text(value)})`,
    "",
  );
}

/** Types of OpenCL C of a part and of a whole number as wide; how often 4 m has n in it. */
const scalars = { real: "T", whole: "uint", quarter: "4 * m / n", wide: "(T)" };

/**
 * Vectors have no division of whole numbers. Floats have these exactly: 4 m is at most 2^24, and a quotient is
 * further than its rounding from the next whole number.
 */
const vectors = {
  real: "V",
  whole: "I",
  quarter: "TO_I(TO_V(4 * m) / (V)n)",
  wide: "TO_V",
};

/** Cosine and sine of 2 π m / n for 0 <= m < n: by the angle's distance from a multiple of a quarter turn. */
export function turnText(dtype: RealType, isVector = false): string {
  const suffix = dtype === "float64" ? "" : "f", terms = dtype === "float64" ? 9 : 5;
  const { real, whole, quarter, wide } = isVector ? vectors : scalars;
  return `inline void turn(${whole} m, ${isVector ? "int" : "uint"} n, ${real}* c, ${real}* s) {
  const ${whole} quarter = ${quarter};
  const ${whole} rest = 4 * m - quarter * n;
  const ${isVector ? whole : "bool"} is_far = 2 * rest > n;
  const ${real} angle = ${wide}(is_far ? n - rest : rest) * (${Math.PI / 2}${suffix} / (T)n);
  const ${real} square = angle * angle;
  const ${real} near = ${series(real, 0, terms + 1, suffix)};
  const ${real} far = angle * ${series(real, 1, terms, suffix)};
  const ${real} x = is_far ? far : near, y = is_far ? near : far;
  *c = quarter == 0 ? x : quarter == 1 ? -y : quarter == 2 ? -x : y;
  *s = quarter == 0 ? y : quarter == 1 ? x : quarter == 2 ? -y : -x;
}`;
}
