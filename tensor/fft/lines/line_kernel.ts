/**
 * The texts of Fourier transforms of lines on GPUs: M. Stockham's order, whose stages are transforms of a
 * few numbers in registers; between them numbers change places through local memory. A line is any
 * equidistant elements: rows, columns, and the steps of a longer transform, whose results are turned by their
 * place and may be written transposed. Real signals are transformed as half as many complex numbers.
 */
import { ButterflyWriter, type Pair } from "./butterfly.ts";
import { numberAt, parameters, resultAt, tangled, untangled } from "./ends.ts";
import { isMirrored, itemsOf, type LinePlan, maxRadixOf, pitchOf, radicesOf } from "./line_plan.ts";
import { keep, multiplied, turnedBy, turnText } from "./turns.ts";

/** A stage: transforms of `radix` numbers, each of one of the transforms before it. */
interface Stage {
  readonly index: number;
  readonly radix: number;
  /** Numbers that were transformed before it. */
  readonly before: number;
  readonly isAcross: boolean;
}

/**
 * The kernel. Numbers of a call: the lines of a sample; then for reading and for writing the distance of
 * lines, that of a line's numbers, and that of samples; last the factor, and the columns of `extent` "both".
 * A sample has whole groups.
 */
export function lineKernel(name: string, plan: LinePlan): string {
  return new LineWriter(plan).text(name);
}

class LineWriter {
  readonly #plan: LinePlan;
  readonly #items: number;
  readonly #stages: readonly Stage[];
  /** Numbers of local memory of one part. */
  readonly #room: number;

  constructor(plan: LinePlan) {
    this.#plan = plan;
    this.#items = itemsOf(plan);
    let before = 1;
    const radices = radicesOf(plan.n, maxRadixOf(plan))!, last = radices.length - 1;
    this.#stages = radices.map((radix, index) => {
      const isAcross = index === 0 && plan.readsAcross ||
        index === last && plan.writesAcross && !this.#isUntangled;
      const stage = { index, radix, before, isAcross };
      before *= radix;
      return stage;
    });
    const isExchanged = radices.length > 1 || this.#isUntangled;
    this.#room = isExchanged ? plan.width * pitchOf(plan.n) : 1;
  }

  /** True where results are frequencies of real signals, which were pairs. */
  get #isUntangled(): boolean {
    return this.#plan.extent === "half" || this.#plan.extent === "whole";
  }

  text(name: string): string {
    const { dtype, n, width, rooms, from, to } = this.#plan;
    const T = dtype === "float64" ? "double" : "float", stages = this.#stages;
    const body = stages.map((stage) => {
      const next = stages[stage.index + 1];
      return `${this.#load(stage)}\n${this.#transform(stage)}\n${
        next ? this.#exchange(stage, next) : ""
      }`;
    });
    const isPaired = isMirrored(this.#plan), own = isPaired ? width / 2 : width;
    const groups = isPaired ? `(lines / 2 + ${own})` : `(lines + ${own - 1})`;
    return `${dtype === "float64" ? "#pragma OPENCL EXTENSION cl_khr_fp64 : enable" : ""}
#define T ${T}
#define T2 ${T}2
#define AT(w, e) ((w) * ${pitchOf(n)} + (e) + ((e) >> 5))
${turnText(dtype)}
kernel __attribute__((reqd_work_group_size(${this.#items}, 1, 1)))
void ${name}(${parameters(from, "global const T*", "re", "im")},
  ${parameters(to, "global T*", "yr", "yi")}, int lines, int in_line, int in_step, int in_sample,
  int out_line, int out_step, int out_sample, int columns, T scale) {
  local T room[${this.#room}]${rooms === 2 ? `, other_room[${this.#room}]` : ""};
  const int id = get_local_id(0);
  const int groups = ${groups} / ${own};
  const int first = get_group_id(0) % groups * ${own};
  const size_t from = (size_t)(get_group_id(0) / groups) * in_sample;
  const size_t to = (size_t)(get_group_id(0) / groups) * out_sample;
${body.join("\n")}
${this.#isUntangled ? this.#storeSignal() : this.#store()}
}
`;
  }

  /** Line `l` of place `w`; mirrored lines have the second half of places. */
  #line(): string {
    if (!isMirrored(this.#plan)) return "const int l = first + w; const bool is_there = l < lines;";
    const own = this.#plan.width / 2;
    return `const int half_line = first + w % ${own}; const bool is_there = 2 * half_line <= lines;
const int l = w < ${own} ? half_line : half_line == 0 ? 0 : lines - half_line;`;
  }

  /** Butterflies of a work-item. */
  #rounds({ radix }: Stage): number[] {
    return this.#roundsOf(this.#plan.width * this.#plan.n / radix);
  }

  #roundsOf(all: number): number[] {
    return Array.from({ length: Math.ceil(all / this.#items) }, (_, k) => k);
  }

  /** For each butterfly `b`: its line `w` of the group, its place `j`. */
  #each(stage: Stage, fn: (round: number) => string): string {
    const { n, width } = this.#plan;
    return this.#eachOf(width, n / stage.radix, stage.isAcross, fn);
  }

  #eachOf(width: number, count: number, isAcross: boolean, fn: (round: number) => string): string {
    const all = width * count;
    const [w, j] = isAcross ? [`b % ${width}`, `b / ${width}`] : [`b / ${count}`, `b % ${count}`];
    return this.#roundsOf(all).map((round) => {
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

  #declare(names: readonly Pair[]): string {
    return `T ${names.flatMap(({ re, im }) => [`${re} = 0`, `${im} = 0`]).join(", ")};`;
  }

  /** The numbers of the first stage; later ones get theirs by an exchange. */
  #load(stage: Stage): string {
    if (stage.index > 0) return "";
    const names = this.#rounds(stage).map((round) => this.#names(stage, round));
    const declared = names.map((all) => this.#declare(all)).join("\n");
    const { n, from, readsHalf, readsAcross } = this.#plan, step = n / stage.radix;
    return `${declared}
${
      this.#each(stage, (round) =>
        `${this.#line()}
if (is_there) {
${
          names[round]!.map((name, r) =>
            readsHalf ? tangled(name, `j + ${r * step}`, n, readsAcross) : numberAt(
              from,
              name,
              `from + (size_t)l * in_line + (size_t)(j + ${r * step}) * in_step`,
            )
          ).join("\n")
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
    const step = this.#plan.n / next.radix;
    return this.#exchanged(
      stage,
      (part) =>
        this.#each(
          next,
          (round) =>
            this.#names(next, round).map((name, r) =>
              `${name[part]} = ${this.#roomOf(part)}[AT(w, j + ${r * step})];`
            )
              .join("\n"),
        ),
      this.#rounds(next).map((round) => this.#declare(this.#names(next, round))),
    );
  }

  /** Results of a stage in local memory: both parts at once, or one after the other where they have one room. */
  #exchanged(stage: Stage, read: (part: keyof Pair) => string, declared: string[] = []): string {
    const { before, radix } = stage, parts = ["re", "im"] as const;
    const write = (part: keyof Pair) =>
      this.#each(
        stage,
        (round) =>
          `const int to = j / ${before} * ${before * radix} + j % ${before};
${
            this.#names(stage, round).map((name, r) =>
              `${this.#roomOf(part)}[AT(w, to + ${r * before})] = ${name[part]};`
            ).join("\n")
          }`,
      );
    const barrier = "barrier(CLK_LOCAL_MEM_FENCE);";
    const moves = this.#plan.rooms === 2
      ? [barrier, ...parts.map(write), barrier, ...parts.map(read)]
      : parts.flatMap((part) => [barrier, write(part), barrier, read(part)]);
    return [...declared, ...moves].join("\n");
  }

  #roomOf(part: keyof Pair): string {
    return this.#plan.rooms === 2 && part === "im" ? "other_room" : "room";
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
    const { n, turn, to, extent } = this.#plan, stage = this.#stages.at(-1)!;
    const step = n / stage.radix;
    const written = (round: number, place: (e: string) => string, sign: string) =>
      this.#names(stage, round).map(({ re, im }, r) =>
        resultAt(to, { re: `${re} * scale`, im: `${sign}${im} * scale` }, place(`j + ${r * step}`))
      ).join("\n");
    const place = (line: string) => (e: string) =>
      `to + (size_t)(${line}) * out_line + (size_t)(${e}) * out_step`;
    const back = (e: string) => place("columns - l")(`${e} == 0 ? 0 : ${n} - (${e})`);
    return this.#each(stage, (round) =>
      `${this.#line()}
if (is_there) {
${turn === 0 ? "" : this.#turnResults(stage, round)}
${written(round, place("l"), "")}
${extent === "both" ? `if (l > 0 && 2 * l < columns) {\n${written(round, back, "-")}\n}` : ""}
}`);
  }

  /** Frequencies of signals: each of a pair needs both, which are in a line, or in mirrored lines. */
  #storeSignal(): string {
    const plan = this.#plan, { n, width } = plan, isPaired = isMirrored(plan);
    const own = isPaired ? width / 2 : width, count = isPaired ? n : (n >> 1) + 1;
    const each = (fn: (round: number) => string) => this.#eachOf(own, count, isPaired, fn);
    const far = isPaired
      ? `w + ${own}, first + w == 0 ? (j == 0 ? 0 : ${n} - j) : ${n - 1} - j`
      : `w, j == 0 ? 0 : ${n} - j`;
    const names = (round: number) => ({
      near: { re: `nr${round}`, im: `ni${round}` },
      far: { re: `fr${round}`, im: `fi${round}` },
    });
    const declared = this.#roundsOf(own * count).map((round) =>
      this.#declare(Object.values(names(round)))
    );
    const read = (part: keyof Pair) =>
      each((round) => {
        const { near, far: other } = names(round);
        const room = this.#roomOf(part);
        return `${near[part]} = ${room}[AT(w, j)]; ${other[part]} = ${room}[AT(${far})];`;
      });
    return `${this.#exchanged(this.#stages.at(-1)!, read, declared)}
${
      each((round) => {
        const { near, far } = names(round);
        return untangled(near, far, plan);
      })
    }`;
  }
}
