/**
 * Recurrent layers on CPU devices: a work-item takes a few rows of the batch through all steps. Rows are
 * independent of each other, so cores meet at the end only, where a launch a step would wake them twice
 * for each; weights stay in a core's cache, the states of the rows in its nearest. Products have their
 * columns on the vector lanes. A training step of an LSTM of 128 features, 32 steps of 16 rows, on two
 * cores with PoCL 3.1: 143 kernels in 4.4 ms with one a step, 12 in 2.1 ms with this.
 */
import {
  type GateMath,
  stepGradients,
  stepValues,
  unread,
} from "../../../codegen/recurrent_gates.ts";
import { gateCounts } from "../../../graph/op.ts";
import type { RecurrenceOfSizes, SpecialKernel } from "../../../kernel/kernel.ts";
import { literal } from "../../codegen/types.ts";
import { ceilTo, laneProducts, LANES } from "../parts/lane_products.ts";
import { generatedSpecial, type Parameters } from "../parts/row_kernel.ts";
import type { Planned, SpecialTemplate } from "../parts/template.ts";

type Recurrence = SpecialKernel & RecurrenceOfSizes;

/** `rows` is how many rows of the batch a work-item takes. */
interface RecurrencePlan extends Planned<Recurrence> {
  readonly rows: number;
}

/** Rows whose sums stay in registers. */
const MAX_ROWS = 8;
/** Vectors of sums in registers; what is multiplied needs the others. */
const MAX_SUMS = 24;

/** A few rows of the batch a work-item. */
export const recurrence: SpecialTemplate<RecurrencePlan> = {
  name: "recurrence",
  matches: (kernel, target) => {
    if (kernel.op !== "recurrence") return null;
    const turns = Math.ceil(kernel.batch / (MAX_ROWS * target.computeUnits));
    const rows = Math.ceil(kernel.batch / Math.max(1, turns * target.computeUnits));
    return { kernel, target, rows: Math.max(1, rows) };
  },
  emit: (plan) => [generatedSpecial(
    plan,
    (p) => {
      const { kernel, rows } = plan, text = new RecurrenceText(kernel, rows, p);
      return (kernel.pass === "forward" ? text.forward() : text.backward()).join("\n");
    },
    Math.max(1, Math.ceil(plan.kernel.batch / plan.rows)),
    1,
  )],
  workItems: ({ kernel, rows }) => Math.ceil(kernel.batch / rows),
};

/** Writes the loop over steps; features and rows are part of the text, steps and batch arguments. */
class RecurrenceText {
  readonly #kernel: Recurrence;
  readonly #rows: number;
  /** Features in whole vectors: where a row of a local array ends. */
  readonly #padded: number;
  readonly #steps: string;
  readonly #batch: string;

  constructor(kernel: Recurrence, rows: number, p: Parameters) {
    this.#kernel = kernel;
    this.#rows = rows;
    this.#padded = ceilTo(kernel.features, LANES);
    this.#steps = p.index(kernel.steps);
    this.#batch = p.index(kernel.batch);
  }

  /** The rows of this work-item, and local arrays of so many floats a row, which begin as zeros. */
  #begin(arrays: Readonly<Record<string, number>>): string[] {
    const floats = Object.entries(arrays).map(([name, size]) => [name, size * this.#rows] as const);
    return [
      `const Index first = get_global_id(0) * ${this.#rows};`,
      `const int count = (int)min((Index)${this.#rows}, ${this.#batch} - first);`,
      `local float ${floats.map(([name, size]) => `${name}[${size}]`).join(", ")};`,
      ...floats.map(([name, size]) =>
        `for (int k = 0; k < ${size / LANES}; ++k) vstore16(0.0f, k, ${name});`
      ),
    ];
  }

  /** Opens the loop over steps: `step`, and the places of the states `before` and `after` it. */
  #openSteps(order: string): string[] {
    const { isReverse } = this.#kernel, last = `${this.#steps} - 1`;
    return [
      order,
      `const Index step = ${isReverse ? `${last} - order` : "order"};`,
      `const Index before = step + ${isReverse ? 1 : 0}, after = step + ${isReverse ? 0 : 1};`,
    ];
  }

  /** `to[r][column] = sum over k < terms of from[r][k] * weights[k][column]`, for all rows. */
  #products(to: string, from: string, terms: number, weights: string, columns: number): string[] {
    const wanted = [4, 3, 2, 1].filter((vectors) => vectors * this.#rows <= MAX_SUMS);
    const vectors = wanted.find((n) => columns / LANES % n === 0)!;
    const left = { name: from, pointer: "local", row: `${ceilTo(terms, LANES)}`, column: "1" };
    const tile = { vectors, rows: this.#rows, width: columns };
    const rows = `${this.#rows}`;
    return [
      `for (int j = 0; j < ${columns}; j += ${vectors * LANES}) {`,
      ...laneProducts(
        tile,
        `${to} + j`,
        left,
        `${weights} + j`,
        rows,
        `${this.#rows - 1}`,
        `${terms}`,
        "zero",
      ),
      "}",
    ];
  }

  /** Statements for each vector `u` of features of each row `r`: whole ones, and the rest. */
  #eachVector(statements: (memory: Memory) => string[]): string[] {
    const { features } = this.#kernel, whole = Math.floor(features / LANES) * LANES;
    const rest = features - whole;
    return [
      "for (int r = 0; r < count; ++r) {",
      ...whole > 0
        ? [`for (int u = 0; u < ${whole}; u += ${LANES}) {`, ...statements(wholeVectors), "}"]
        : [],
      ...rest > 0 ? ["{", `const int u = ${whole};`, ...statements(partOfVector(rest)), "}"] : [],
      "}",
    ];
  }

  /** Position of feature `u` of row `r` at a place of a plane. */
  #plane(buffer: string, plane: number, place: string): string {
    const step = plane === 0 ? place : `(${plane} * (${this.#steps} + 1) + ${place})`;
    return `${buffer} + (${step} * ${this.#batch} + first + r) * ${this.#kernel.features} + u`;
  }

  /** Position in a matrix of so many blocks of features a row, behind those of other steps. */
  #block(buffer: string, step: string, blocks: number, block: number): string {
    const { features } = this.#kernel;
    const row = `(${step} * ${this.#batch} + first + r)`;
    return `${buffer} + ${row} * ${blocks * features} + ${block * features} + u`;
  }

  forward(): string[] {
    const { gates, features, columns, planes, isReverse, inputs } = this.#kernel;
    const size = gateCounts[gates], width = size.gates * columns, padded = this.#padded;
    const start = isReverse ? this.#steps : "0", names = ["hs", "cs"].slice(0, size.states);
    const local = (name: string): string => `${name} + r * ${padded} + u`;
    const step = (memory: Memory): string[] => {
      const lines: string[] = [], m = gateTexts(lines);
      const sum = (gate: number): string =>
        `vload16(0, sums + r * ${width} + ${gate * columns} + u)`;
      const bias = (gate: number): string =>
        inputs.length > 3 ? ` + ${memory.load(`a3 + ${gate * features} + u`)}` : "";
      const input = (gate: number): string =>
        m.named(memory.load(this.#block("a0", "step", size.gates, gate)));
      const hidden = (gate: number): string => m.named(`${sum(gate)}${bias(gate)}`);
      const values = stepValues(gates, m, {
        input,
        hidden,
        before: (plane) => m.named(`vload16(0, ${local(names[plane]!)})`),
        after: unread,
      });
      return [
        ...lines,
        ...names.map((name, k) => `vstore16(${values[k]}, 0, ${local(name)});`),
        ...values.slice(0, planes).map((value, k) =>
          memory.store(value, this.#plane("o0", k, "after"))
        ),
      ];
    };
    const firstState = (memory: Memory): string[] =>
      names.flatMap((name, k) => [
        `const float16 ${name}0 = ${
          memory.load(`a2 + (${k} * ${this.#batch} + first + r) * ${features} + u`)
        };`,
        `vstore16(${name}0, 0, ${local(name)});`,
        memory.store(`${name}0`, this.#plane("o0", k, start)),
      ]);
    return [
      ...this.#begin({ ...Object.fromEntries(names.map((name) => [name, padded])), sums: width }),
      ...this.#eachVector(firstState),
      ...this.#openSteps(`for (Index order = 0; order < ${this.#steps}; ++order) {`),
      ...this.#products("sums", "hs", features, "a1", width),
      ...this.#eachVector(step),
      "}",
    ];
  }

  backward(): string[] {
    const { gates, features, columns } = this.#kernel;
    const { states, blocks, gates: rows } = gateCounts[gates], padded = this.#padded;
    const terms = rows * features, length = ceilTo(terms, LANES);
    const known = ["flow0", "flow1"].slice(0, states);
    const local = (k: number): string => `${known[k]} + r * ${k === 0 ? columns : padded} + u`;
    const flowing = (k: number): string =>
      k === 0
        ? `vload16(0, ${local(k)}) + vload16(0, direct + r * ${padded} + u)`
        : `vload16(0, ${local(k)})`;
    const step = (memory: Memory): string[] => {
      const lines: string[] = [], m = gateTexts(lines);
      const gradient = (k: number): string =>
        memory.load(
          `a1 + ((${k} * ${this.#steps} + step) * ${this.#batch} + first + r) * ${features} + u`,
        );
      const found = stepGradients(gates, m, {
        before: (plane) => m.named(memory.load(this.#plane("a0", plane, "before"))),
        after: (plane) => m.named(memory.load(this.#plane("a0", plane, "after"))),
      }, known.map((_, k) => m.add(flowing(k), gradient(k))));
      const inner = (value: string, block: number): string[] => {
        const at = block - (blocks - rows);
        return at < 0 ? [] : [memory.keep(value, `found + r * ${length} + ${at * features} + u`)];
      };
      return [
        ...lines,
        ...found.blocks.flatMap((value, k) => [
          memory.store(value, this.#block("o0", "step", blocks, k)),
          ...inner(value, k),
        ]),
        ...found.direct.map((value, k) =>
          `vstore16(${value}, 0, ${k === 0 ? `direct + r * ${padded} + u` : local(k)});`
        ),
      ];
    };
    const arrays = {
      flow0: columns,
      ...(states > 1 && { flow1: padded }),
      direct: padded,
      found: length,
    };
    return [
      ...this.#begin(arrays),
      ...this.#openSteps(`for (Index order = ${this.#steps} - 1; order >= 0; --order) {`),
      ...this.#eachVector(step),
      ...this.#products("flow0", "found", terms, "a2", columns),
      "}",
      ...this.#eachVector((memory) =>
        known.map((_, k) =>
          memory.store(`(${flowing(k)})`, this.#block("o0", this.#steps, blocks, k))
        )
      ),
    ];
  }
}

/** Access to vectors of features. */
interface Memory {
  readonly load: (from: string) => string;
  readonly store: (value: string, to: string) => string;
  /** Stores to local memory, where another feature may follow. */
  readonly keep: (value: string, to: string) => string;
}

const wholeVectors: Memory = {
  load: (from) => `vload16(0, ${from})`,
  store: (value, to) => `vstore16(${value}, 0, ${to});`,
  keep: (value, to) => `vstore16(${value}, 0, ${to});`,
};

/** Vectors of which so many lanes are features. */
function partOfVector(lanes: number): Memory {
  return {
    load: (from) => `load_part_float(${from}, ${lanes})`,
    store: (value, to) => `store_part_float(${value}, ${to}, ${lanes});`,
    keep: (value, to) =>
      `{ float some[${LANES}]; vstore16(${value}, 0, some); local float* to = ${to}; ` +
      `for (int k = 0; k < ${lanes}; ++k) to[k] = some[k]; }`,
  };
}

/** Arithmetic of gates as statements, which are added to `lines`: each value gets a name. */
function gateTexts(lines: string[]): GateMath<string> & { named(text: string): string } {
  const named = (text: string): string => {
    lines.push(`const float16 v${lines.length} = ${text};`);
    return `v${lines.length - 1}`;
  };
  return {
    named,
    float: (value) => `(float16)(${literal(value, "float32")})`,
    add: (a, b) => named(`${a} + ${b}`),
    sub: (a, b) => named(`${a} - ${b}`),
    mul: (a, b) => named(`${a} * ${b}`),
    madd: (a, b, c) => named(`${a} * ${b} + ${c}`),
    lt: (a, b) => `${a} < ${b}`,
    gt: (a, b) => `${a} > ${b}`,
    select: (mask, a, b) => named(`select(${b}, ${a}, ${mask})`),
    sigmoid: (x) => named(`sigmoid_16(${x})`),
    tanh: (x) => named(`tanh_16(${x})`),
  };
}
