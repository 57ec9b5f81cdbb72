/**
 * The texts of Fourier transforms of lines on processors: M. Stockham's order, a line in each lane of vectors,
 * so that every step is the same for all lanes. Lines beside each other in memory are vectors already; rows
 * are transposed while they are read, or written. Stages go to and fro between two rooms of a work-group of
 * one item, which its core's cache holds.
 */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { ButterflyWriter, type Pair } from "./butterfly.ts";
import { parameters } from "./ends.ts";
import { type Ends, radicesOf } from "./line_plan.ts";
import { keep, multiplied, turnText } from "./turns.ts";

/** A transform of lines that a text is written for. */
export interface VectorPlan extends Ends {
  readonly dtype: RealType;
  /** Numbers of a line. */
  readonly n: number;
  /** Lines of a group: lanes of a vector. */
  readonly lanes: number;
  /** True where the lines of a sample are no whole groups. */
  readonly hasRest: boolean;
  /** Result k of line l of a sample is turned by -2 π k l / turn; 0 for none. */
  readonly turn: number;
}

/** Numbers of a butterfly: more would leave the 32 registers that processors with wide vectors have. */
const MAX_RADIX = 10;

/** Bytes of the four rooms of a group: real and imaginary parts, before and after a stage. */
export function roomBytes(n: number, lanes: number, dtype: RealType): number {
  return 4 * n * lanes * (dtype === "float64" ? 8 : 4);
}

/**
 * The kernel. Beside the parts it reads cosines and sines of 2 π k / n. Numbers of a call: the lines of a
 * sample; then for reading and for writing the distance of lines, and that of a line's numbers. The last
 * group of a sample has whole vectors, too: it begins earlier, and writes no line again.
 */
export function vectorKernel(name: string, plan: VectorPlan): string {
  return new VectorWriter(plan).text(name);
}

class VectorWriter {
  readonly #plan: VectorPlan;
  readonly #radices: readonly number[];

  constructor(plan: VectorPlan) {
    this.#plan = plan;
    this.#radices = radicesOf(plan.n, MAX_RADIX)!;
  }

  text(name: string): string {
    const { dtype, n, lanes, readsAcross, writesAcross, from, to } = this.#plan;
    const [T, I] = dtype === "float64" ? ["double", "long"] : ["float", "int"];
    const stages = this.#radices.map((radix, index) => this.#stage(radix, index));
    return `${dtype === "float64" ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" : ""}
#define T ${T}
#define V ${T}${lanes}
#define I ${I}${lanes}
#define TO_V(x) convert_${T}${lanes}(x)
#define TO_I(x) convert_${I}${lanes}(x)
#define READ(p) vload${lanes}(0, p)
${turnText(dtype, true)}
${this.#writeText()}
${this.#transposeText()}
kernel __attribute__((reqd_work_group_size(1, 1, 1)))
void ${name}(${
      parameters(from, "global const T* restrict", "re", "im")
    }, global const T* restrict cosines,
  global const T* restrict sines, ${
      parameters(to, "global T* restrict", "yr", "yi")
    }, int lines, int in_line, int in_step,
  int in_sample, int out_line, int out_step, int out_sample, int columns, T scale) {
  local V ar[${n}], ai[${n}], br[${n}], bi[${n}];
  const int groups = (lines + ${lanes - 1}) / ${lanes}, group = get_group_id(0) % groups;
  const int first = min(group * ${lanes}, lines - ${lanes}), skipped = group * ${lanes} - first;
  const size_t sample = get_group_id(0) / groups;
  ${from === "parts" ? "im += sample * in_sample + (size_t)first * in_line;" : ""}
  re += sample * in_sample + (size_t)first * in_line;
  yr += sample * out_sample + (size_t)first * out_line;
  yi += sample * out_sample + (size_t)first * out_line;
${readsAcross ? "" : this.#rows("read_rows", "in_line", ["re", "im"], "a")}
${stages.join("\n")}
${writesAcross ? "" : this.#rows("write_rows", "out_line", ["yr", "yi"], this.#room(stages.length))}
}
`;
  }

  /** The room that a stage reads; the one behind it is that of the results. */
  #room(stage: number): string {
    return stage % 2 === 0 ? "a" : "b";
  }

  #rows(fn: string, line: string, [re, im]: readonly [string, string], room: string): string {
    const rest = fn === "read_rows" ? "" : ", skipped, scale", { n, from } = this.#plan;
    if (fn === "read_rows" && from === "reals") {
      return `  ${fn}(${re}, ${line}, ${room}r);
  for (int e = 0; e < ${n}; e++) ${room}i[e] = (V)0;`;
    }
    return `  ${fn}(${re}, ${line}, ${room}r${rest});
  ${fn}(${im}, ${line}, ${room}i${rest});`;
  }

  /** Writes a vector, but for the lanes that another group writes. */
  #writeText(): string {
    const { lanes, hasRest } = this.#plan;
    if (!hasRest) return `#define WRITE(x, p) vstore${lanes}(x, 0, p)`;
    return `#define WRITE(x, p) write_behind(x, p, skipped)
inline void write_behind(V x, global T* to, int skipped) {
  if (skipped == 0) {
    vstore${lanes}(x, 0, to);
    return;
  }
  T lanes[${lanes}];
  vstore${lanes}(x, 0, lanes);
  for (int k = skipped; k < ${lanes}; k++) to[k] = lanes[k];
}`;
  }

  /** Squares of rows, transposed by perfect shuffles; a line's last square begins earlier. */
  #transposeText(): string {
    const { n, lanes, hasRest, readsAcross, writesAcross } = this.#plan;
    if (readsAcross && writesAcross) return "";
    const all = Array.from({ length: lanes }, (_, k) => k), half = lanes / 2;
    const joined = (from: number) =>
      `(V)(${
        all.slice(0, half).map((k) => `x.s${hex(from + k)}, y.s${hex(from + k)}`).join(", ")
      })`;
    const steps = all.slice(0, half).map((k) =>
      `    { const V x = v[${k}], y = v[${k + half}]; w[${2 * k}] = ${joined(0)}; w[${
        2 * k + 1
      }] = ${joined(half)}; }`
    );
    return `inline void transpose(V* v) {
  V w[${lanes}];
  #pragma unroll
  for (int round = 0; round < ${Math.log2(lanes)}; round++) {
${steps.join("\n")}
    #pragma unroll
    for (int k = 0; k < ${lanes}; k++) v[k] = w[k];
  }
}
inline void read_rows(global const T* from, int line, local V* to) {
  for (int e = 0; e < ${n}; e += ${lanes}) {
    const int at = min(e, ${n - lanes});
    V v[${lanes}];
    #pragma unroll
    for (int k = 0; k < ${lanes}; k++) v[k] = READ(from + (size_t)k * line + at);
    transpose(v);
    #pragma unroll
    for (int k = 0; k < ${lanes}; k++) to[at + k] = v[k];
  }
}
inline void write_rows(global T* to, int line, local const V* from, int skipped, T scale) {
  for (int e = 0; e < ${n}; e += ${lanes}) {
    const int at = min(e, ${n - lanes});
    V v[${lanes}];
    #pragma unroll
    for (int k = 0; k < ${lanes}; k++) v[k] = from[at + k] * scale;
    transpose(v);
    #pragma unroll
    for (int k = 0; k < ${lanes}; k++) ${
      hasRest ? "if (k >= skipped) " : ""
    }vstore${lanes}(v[k], 0, to + (size_t)k * line + at);
  }
}`;
  }

  /** Transforms of `radix` numbers, each of one of the transforms before it: butterfly `j` = `before` i + k. */
  #stage(radix: number, index: number): string {
    const { n, dtype, readsAcross, writesAcross, turn } = this.#plan, step = n / radix;
    const before = this.#radices.slice(0, index).reduce((all, side) => all * side, 1);
    const isFirst = index === 0 && readsAcross;
    const isLast = index === this.#radices.length - 1 && writesAcross;
    const names: Pair[] = Array.from({ length: radix }, (_, r) => ({ re: `x${r}`, im: `y${r}` }));
    const writer = new ButterflyWriter("t", dtype, "V"), found = writer.transform(names);
    const room = this.#room(index), next = this.#room(index + 1);
    const at = (r: number) => r === 0 ? "j" : `j + ${r * step}`;
    const read = (name: "re" | "im", r: number) =>
      isFirst && name === "im" && this.#plan.from === "reals"
        ? "(V)0"
        : isFirst
        ? `READ(${name} + (size_t)(${at(r)}) * in_step)`
        : `${room}${name === "re" ? "r" : "i"}[${at(r)}]`;
    const isTurned = isLast && turn > 0;
    const write = ({ re, im }: Pair, r: number) =>
      isLast
        ? `WRITE(${re} * scale, yr + (size_t)(${at(r)}) * out_step);
WRITE(${im} * scale, yi + (size_t)(${at(r)}) * out_step);`
        : `${next}r[to + ${r * before}] = ${re}; ${next}i[to + ${r * before}] = ${im};`;
    return `  {
${isTurned ? this.#lineTurns(radix, step) : ""}
    for (int k = 0; k < ${before}; k++) {
${before > 1 ? this.#factors(radix, n / (before * radix)) : ""}
      for (int i = 0; i < ${step / before}; i++) {
        const int j = i * ${before} + k;
        V ${
      names.map(({ re, im }, r) => `${re} = ${read("re", r)}, ${im} = ${read("im", r)}`).join(", ")
    };
${
      before > 1
        ? names.slice(1).map((name, r) => multiplied(name, `c${r + 1}`, `s${r + 1}`, "V")).join(
          "\n",
        )
        : ""
    }
${[...writer.lines, ...keep(names, found, "re"), ...keep(names, found, "im")].join("\n")}
${isTurned ? this.#turnResults(names) : ""}
        ${isLast ? "" : `const int to = i * ${before * radix} + k;`}
${names.map(write).join("\n")}
      }
    }
  }`;
  }

  /** The factors of number r in a transform of transforms: the table has them. */
  #factors(radix: number, blocks: number): string {
    return Array.from({ length: radix - 1 }, (_, r) => {
      const at = `${(r + 1) * blocks} * k`;
      return `const T c${r + 1} = cosines[${at}], s${r + 1} = sines[${at}];`;
    }).join("\n");
  }

  /** The factors of a longer transform from one result of a butterfly to the next, a line in each lane. */
  #lineTurns(radix: number, step: number): string {
    const { lanes, turn } = this.#plan;
    const iota = Array.from({ length: lanes }, (_, k) => k).join(", ");
    const factors = Array.from(
      { length: radix - 1 },
      (_, r) =>
        `V lc${r + 1}, ls${r + 1}; turn(line * ${(r + 1) * step}, ${turn}, &lc${r + 1}, &ls${
          r + 1
        });`,
    );
    return `    const I line = first + (I)(${iota});
${factors.join("\n")}`;
  }

  #turnResults(names: readonly Pair[]): string {
    return `{ V c, s;
turn(line * j, ${this.#plan.turn}, &c, &s);
${names.map((name) => multiplied(name, "c", "s", "V")).join("\n")} }
${names.slice(1).map((name, r) => multiplied(name, `lc${r + 1}`, `ls${r + 1}`, "V")).join("\n")}`;
  }
}

const hex = (k: number): string => k.toString(16);
