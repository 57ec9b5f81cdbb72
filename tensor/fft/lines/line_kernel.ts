/**
 * The texts of Fourier transforms of lines on GPUs: M. Stockham's order, whose stages are transforms of a
 * few numbers in registers; between them numbers change places through local memory, real parts before
 * imaginary ones, so that both need one room. A line is any equidistant elements: rows, columns, and the
 * steps of a longer transform, whose results are turned by their place and may be written transposed.
 */
import type { RealType } from "../../ops/custom/matrix_kernel.ts";
import { ButterflyWriter, MAX_BUTTERFLY_PRIME, type Pair } from "./butterfly.ts";

/** A transform of lines that a text is written for. */
export interface LinePlan {
  readonly dtype: RealType;
  /** Numbers of a line. */
  readonly n: number;
  /** Lines that a group has. */
  readonly width: number;
  /** Neighbouring lines are neighbours in memory, not neighbours of a line: where it reads, where it writes. */
  readonly readsAcross: boolean;
  readonly writesAcross: boolean;
  /** Result k of line l of a sample is turned by -2 π k l / turn; 0 for none. */
  readonly turn: number;
  /** Work-items that the device lets a group have. */
  readonly maxItems: number;
  /** Registers of 4 bytes that a work-item has. */
  readonly registers: number;
  /** Attributes of the kernel, by which it has so many. */
  readonly attributes: string;
}

/** Numbers of a butterfly: they and what becomes of them stay in registers. */
const MAX_RADIX = 16;

/**
 * Numbers of a butterfly on a device, unless they are a prime number of them: two parts of each take at most
 * three eighths of the registers. What becomes of them, and turns, have the rest.
 */
function maxRadixOf({ dtype, registers }: Pick<LinePlan, "dtype" | "registers">): number {
  const words = bytesOf[dtype] / 4;
  return Math.min(MAX_RADIX, Math.floor(3 / 8 * registers / (2 * words)));
}

/** Work-items of a group. */
const MIN_ITEMS = 32, MAX_ITEMS = 512;
/** Numbers of a group of short lines. */
const GROUP_NUMBERS = 1024;
/** Bytes that a fetch of neighbours is worth. */
const SECTOR_BYTES = 32;

/** Stages of lengths, which programs repeat; those of a length need those of its factors. */
const known = new Map<string, readonly number[] | null>();
const MAX_KNOWN = 1024;

/**
 * The stages of a transform, the fewest, and then the smallest ones; null where there is a large prime.
 *
 * @param most Numbers of a stage, but for primes.
 */
export function radicesOf(n: number, most = MAX_RADIX): readonly number[] | null {
  if (known.size > MAX_KNOWN) known.clear();
  const key = `${n} ${most}`, before = known.get(key);
  const found = before === undefined ? bestRadices(n, most) : before;
  known.set(key, found);
  return found;
}

function bestRadices(n: number, most: number): readonly number[] | null {
  if (n === 1) return [];
  let best: readonly number[] | null = null;
  for (let radix = 2; radix <= MAX_RADIX; radix++) {
    const prime = largestPrime(radix);
    if (n % radix !== 0 || prime > MAX_BUTTERFLY_PRIME || radix > Math.max(most, prime)) continue;
    const rest = radicesOf(n / radix, most);
    if (rest === null) continue;
    const all = [...rest, radix].sort((a, b) => b - a);
    if (best === null || cost(all) < cost(best)) best = all;
  }
  return best;
}

const cost = (radices: readonly number[]): number =>
  1000 * radices.length + radices.reduce((sum, radix) => sum + radix, 0);

/** The largest prime factor. */
export function largestPrime(n: number): number {
  let rest = n, largest = 1;
  for (let p = 2; p * p <= rest; p++) {
    while (rest % p === 0) {
      rest /= p;
      largest = p;
    }
  }
  return Math.max(largest, rest);
}

/** Elements of local memory that a line takes: a gap every 32 keeps strided neighbours in other banks. */
function pitchOf(n: number): number {
  return n + (n >> 5) | 1;
}

const bytesOf = { float32: 4, float64: 8 } as const;

/** Lines of a group: short ones fill it, and lines beside each other a fetch; 0 where none fits. */
export function widthOf(
  { dtype, n, readsAcross, writesAcross }: Omit<LinePlan, "width">,
  lines: number,
  localBytes: number,
): number {
  const bytes = bytesOf[dtype], isAcross = readsAcross || writesAcross;
  const fitting = Math.floor(localBytes / (pitchOf(n) * bytes));
  const wanted = Math.max(isAcross ? SECTOR_BYTES / bytes : 1, Math.floor(GROUP_NUMBERS / n));
  return Math.min(wanted, fitting, lines);
}

/** Work-items of a group. */
export function itemsOf(plan: LinePlan): number {
  const { n, width, maxItems } = plan, largest = radicesOf(n, maxRadixOf(plan))![0]!;
  const items = Math.ceil(width * n / largest / MIN_ITEMS) * MIN_ITEMS;
  return Math.min(Math.max(items, MIN_ITEMS), MAX_ITEMS, maxItems);
}

/** A stage: transforms of `radix` numbers, each of one of the transforms before it. */
interface Stage {
  readonly index: number;
  readonly radix: number;
  /** Numbers that were transformed before it. */
  readonly before: number;
  readonly isAcross: boolean;
}

/**
 * The kernel. Numbers of a call: the lines of a sample, whose elements are `n` times as many; then for
 * reading and for writing the distance of lines, and that of a line's numbers. A sample has whole groups.
 */
export function lineKernel(name: string, plan: LinePlan): string {
  return new LineWriter(plan).text(name);
}

class LineWriter {
  readonly #plan: LinePlan;
  readonly #items: number;
  readonly #stages: readonly Stage[];

  constructor(plan: LinePlan) {
    this.#plan = plan;
    this.#items = itemsOf(plan);
    let before = 1;
    const radices = radicesOf(plan.n, maxRadixOf(plan))!, last = radices.length - 1;
    this.#stages = radices.map((radix, index) => {
      const isAcross = index === 0 && plan.readsAcross || index === last && plan.writesAcross;
      const stage = { index, radix, before, isAcross };
      before *= radix;
      return stage;
    });
  }

  text(name: string): string {
    const { dtype, n, width, attributes } = this.#plan,
      T = dtype === "float64" ? "double" : "float";
    const stages = this.#stages;
    const body = stages.map((stage) => {
      const next = stages[stage.index + 1];
      return `${this.#load(stage)}\n${this.#transform(stage)}\n${
        next ? this.#exchange(stage, next) : ""
      }`;
    });
    return `${dtype === "float64" ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" : ""}
#define T ${T}
#define AT(w, e) ((w) * ${pitchOf(n)} + (e) + ((e) >> 5))
${turnText(dtype)}
kernel __attribute__((reqd_work_group_size(${this.#items}, 1, 1))) ${attributes}
void ${name}(global const T* restrict re, global const T* restrict im, global T* restrict yr,
  global T* restrict yi, int lines, int in_line, int in_step, int out_line, int out_step, T scale) {
  local T room[${stages.length > 1 ? width * pitchOf(n) : 1}];
  const int id = get_local_id(0);
  const int groups = (lines + ${width - 1}) / ${width};
  const int first = get_group_id(0) % groups * ${width};
  const size_t sample = (size_t)(get_group_id(0) / groups) * lines * ${n};
${body.join("\n")}
${this.#store()}
}
`;
  }

  /** Butterflies of a work-item. */
  #rounds({ radix }: Stage): number[] {
    const { n, width } = this.#plan, count = Math.ceil(width * n / radix / this.#items);
    return Array.from({ length: count }, (_, k) => k);
  }

  /** For each butterfly `b`: its line `w` of the group, its place `j`. */
  #each(stage: Stage, fn: (round: number) => string): string {
    const { n, width } = this.#plan, count = n / stage.radix, all = width * count;
    return this.#rounds(stage).map((round) => {
      const [w, j] = stage.isAcross
        ? [`b % ${width}`, `b / ${width}`]
        : [`b / ${count}`, `b % ${count}`];
      const isWhole = (round + 1) * this.#items <= all;
      return `{ const int b = id + ${round * this.#items};
${isWhole ? "" : `if (b < ${all}) `}{ const int w = ${w}; const int j = ${j};
${fn(round)}
} }`;
    }).join("\n");
  }

  #names({ index, radix }: Stage, round: number): Pair[] {
    return Array.from({ length: radix }, (_, r) => ({
      re: `a${index}_${round}_${r}`,
      im: `b${index}_${round}_${r}`,
    }));
  }

  #declare(stage: Stage): string {
    return this.#rounds(stage).map((round) => {
      const names = this.#names(stage, round).flatMap(({ re, im }) => [`${re} = 0`, `${im} = 0`]);
      return `T ${names.join(", ")};`;
    }).join("\n");
  }

  /** The numbers of the first stage; later ones get theirs by an exchange. */
  #load(stage: Stage): string {
    if (stage.index > 0) return "";
    const step = this.#plan.n / stage.radix;
    return `${this.#declare(stage)}
${
      this.#each(stage, (round) =>
        `const int l = first + w;
if (l < lines) {
const size_t from = sample + (size_t)l * in_line;
${
          this.#names(stage, round).map(({ re, im }, r) => {
            const at = `from + (size_t)(j + ${r * step}) * in_step`;
            return `${re} = re[${at}]; ${im} = im[${at}];`;
          }).join("\n")
        }
}`)
    }`;
  }

  #transform(stage: Stage): string {
    return this.#each(stage, (round) => {
      const names = this.#names(stage, round);
      const writer = new ButterflyWriter("t", this.#plan.dtype);
      const found = writer.transform(names);
      return [
        ...this.#turns(stage, names),
        ...writer.lines,
        ...keep(names, found, "re"),
        ...keep(names, found, "im"),
      ].join("\n");
    });
  }

  /** Turns number r by r k / n, of those that are transformed already. */
  #turns({ radix, before }: Stage, names: readonly Pair[]): string[] {
    if (before === 1) return [];
    return [`const int k = j % ${before};`, ...turnedBy(names, "k", before * radix)];
  }

  /** Moves results of a stage to where the next one reads them. */
  #exchange(stage: Stage, next: Stage): string {
    const { before, radix } = stage, step = this.#plan.n / next.radix;
    const move = (part: keyof Pair) =>
      `barrier(CLK_LOCAL_MEM_FENCE);
${
        this.#each(stage, (round) =>
          `const int to = j / ${before} * ${before * radix} + j % ${before};
${
            this.#names(stage, round).map((name, r) =>
              `room[AT(w, to + ${r * before})] = ${name[part]};`
            ).join("\n")
          }`)
      }
barrier(CLK_LOCAL_MEM_FENCE);
${
        this.#each(next, (round) =>
          this.#names(next, round).map((name, r) => `${name[part]} = room[AT(w, j + ${r * step})];`)
            .join("\n"))
      }`;
    return `${this.#declare(next)}\n${move("re")}\n${move("im")}`;
  }

  /** The factors of a longer transform: l j / turn for the first result, and from one to the next the same. */
  #turnResults(stage: Stage, round: number): string {
    const { n, turn } = this.#plan, names = this.#names(stage, round);
    const step = turnedBy(names, `(l * ${n / stage.radix})`, turn);
    return [
      "{",
      ...step,
      "}",
      "{ T c, s;",
      `turn(l * j, ${turn}, &c, &s);`,
      ...names.map((name) => multiplied(name, "c", "s")),
      "}",
    ].join("\n");
  }

  #store(): string {
    const { turn } = this.#plan, stage = this.#stages.at(-1)!, step = this.#plan.n / stage.radix;
    return this.#each(stage, (round) =>
      `const int l = first + w;
if (l < lines) {
const size_t to = sample + (size_t)l * out_line;
${turn === 0 ? "" : this.#turnResults(stage, round)}
${
        this.#names(stage, round).map((name, r) => {
          const at = `to + (size_t)(j + ${r * step}) * out_step`;
          return `yr[${at}] = ${name.re} * scale; yi[${at}] = ${name.im} * scale;`;
        }).join("\n")
      }
}`);
  }
}

/** Statements that turn number r by r step / n: by computed turns for powers of two, others by their products. */
function turnedBy(names: readonly Pair[], step: string, n: number): string[] {
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
