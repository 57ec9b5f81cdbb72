/**
 * Attention of a few queries to a cache of keys of which the first are filled. A group takes a few queries of a
 * head and a stretch of keys: their scores, the weights, and the sum of values. Groups of stretches that are
 * not filled end at once, so time goes with what is filled; where there are several stretches, a second kernel
 * joins their sums.
 */
import { ZERO_BYTE } from "../../../graph/attention.ts";
import { type AttentionKernel, type HeadMatrix, headsOf } from "../../../kernel/attention.ts";
import type { Scratch } from "../../../kernel/template.ts";
import type { Target } from "../../../kernel/target.ts";
import type { Generated } from "../../codegen/generated.ts";
import { storeText } from "../../codegen/types.ts";
import type { Planned, Template } from "../parts/template.ts";
import { AttentionText, liesAsFloats } from "./attention_text.ts";

/** Keys of a stretch; queries of a group, at most; work-items of a group on a GPU. */
const KEYS = 256, MAX_ROWS = 8, ITEMS = 128;
/** Lanes of a work-item that is a group of its own. */
const LANES = 16;

/** A group a stretch of keys. */
export const filledAttention: Template<AttentionKernel, Planned<AttentionKernel>> = {
  name: "attention to filled keys",
  matches: (kernel, target) => kernel.filled === null ? null : { kernel, target },
  emit: (plan) => ({
    kernels: [stretches(plan), ...stretchesOf(plan.kernel) > 1 ? [joined(plan)] : []],
  }),
  workItems: ({ kernel, target }) => groupsOf(kernel, target) * itemsOf(target),
  scratch: ({ kernel }) => scratchOf(kernel),
};

const itemsOf = ({ isGpu }: Target): number => isGpu ? ITEMS : 1;
const stretchesOf = ({ keys }: AttentionKernel): number => Math.ceil(keys / KEYS);

/** Queries of a group: as many as local memory has room for. */
function rowsOf({ queries, features, valueFeatures }: AttentionKernel, target: Target): number {
  const floats = features + KEYS + itemsOf(target) + 2 + Math.max(valueFeatures, ITEMS);
  const room = Math.floor(target.localMemory / 4 / floats);
  return Math.max(1, Math.min(queries, MAX_ROWS, room));
}

const groupsOf = (kernel: AttentionKernel, target: Target): number =>
  headsOf(kernel) * Math.ceil(kernel.queries / rowsOf(kernel, target)) * stretchesOf(kernel);

/** Sums of values of each stretch; its largest score and the sum of its exponentials. */
function scratchOf(kernel: AttentionKernel): Scratch[] {
  const parts = headsOf(kernel) * kernel.queries * stretchesOf(kernel);
  return stretchesOf(kernel) === 1 ? [] : [
    { dtype: "float32", size: parts * kernel.valueFeatures },
    { dtype: "float32", size: parts * 2 },
  ];
}

function finish(text: AttentionText, groups: number, items: number, target: Target): Generated {
  const scratch = scratchOf(text.kernel).map(({ dtype }) => dtype);
  return text.finish(groups, items, target.narrowEnd, scratch);
}

/** Sums of a stretch. */
function stretches({ kernel, target }: Planned<AttentionKernel>): Generated {
  const text = new AttentionText(kernel), items = itemsOf(target), rows = rowsOf(kernel, target);
  const { query, features, queries, scale } = kernel;
  place(text, rows);
  for (
    const [name, size] of Object.entries({ q: features, s: KEYS, red: items, top: 1, total: 1 })
  ) {
    text.local(name, rows * size);
  }
  text.add(
    `const int item = get_local_id(0);`,
    `for (int k = item; k < ${rows * features}; k += ${items}) {`,
    `  const int r = k / ${features}, e = k % ${features};`,
    `  q[k] = row0 + r < ${text.index(queries)} ? ${
      text.load("query", query, "(row0 + r)", "e")
    } * ${text.float(scale)} : 0.0f;`,
    "}",
    barrier(items),
  );
  scores(text, rows, items);
  weights(text, rows, items);
  values(text, rows, items);
  return finish(text, groupsOf(kernel, target), items, target);
}

const barrier = (items: number): string => items > 1 ? "barrier(CLK_LOCAL_MEM_FENCE);" : "";

/** Declares the group's place, and the keys of its stretch that its queries see: `begin`, `count`. */
function place(text: AttentionText, rows: number): void {
  const { kernel } = text, { queries, isCausal, filled } = kernel;
  const parts = text.index(stretchesOf(kernel));
  const blocks = text.index(Math.ceil(queries / rows)), l = text.index(queries);
  text.add(
    "const Index group = get_group_id(0);",
    `const Index part = group % ${parts}, row0 = group / ${parts} % ${blocks} * ${rows};`,
    `const Index head = group / ${parts} / ${blocks};`,
  );
  text.placeHead("head");
  text.placeMatrices();
  text.add(
    // The query at row r sees the keys from first + r to before end + r, at the last.
    `const int length = ${text.load("filled", filled!.at, "0", "0")};`,
    `const int last = ${isCausal ? `min(${rows - 1}, (int)(${l} - row0) - 1)` : "0"};`,
    `const int end = ${isCausal ? `length - (int)(${l} - row0) + 1` : "length"};`,
    `const int first = ${filled!.window === null ? "0" : `end - ${text.index(filled!.window)}`};`,
    `const int begin = max((int)part * ${KEYS}, first);`,
    `const int stop = min(min((int)part * ${KEYS} + ${KEYS}, end + last), (int)${
      text.index(kernel.keys)
    });`,
    "const int count = stop - begin;",
  );
  const row = partRow(text, "r");
  if (stretchesOf(kernel) === 1) return;
  text.add(
    "if (count <= 0) {",
    `  for (int r = get_local_id(0); r < ${rows} && row0 + r < ${l}; r += get_local_size(0)) o2[2 * (${row})] = -INFINITY;`,
    "  return;",
    "}",
  );
}

/** Number of a row's sums among those of all stretches. */
function partRow(text: AttentionText, r: string): string {
  const l = text.index(text.kernel.queries), parts = text.index(stretchesOf(text.kernel));
  return `(head * ${l} + row0 + ${r}) * ${parts} + part`;
}

const each = (rows: number, statement: (r: number) => string): string[] =>
  Array.from({ length: rows }, (_, r) => statement(r));

/** Keys or values: numbers, or bytes with the scale of their row. */
class Rows {
  readonly #text: AttentionText;
  readonly #name: "key" | "value";
  readonly at: HeadMatrix;
  readonly #scale: HeadMatrix | null;

  constructor(text: AttentionText, name: "key" | "value") {
    this.#text = text;
    this.#name = name;
    this.at = text.kernel[name];
    this.#scale = text.kernel.filled!.scales?.[name] ?? null;
  }

  /** An element without its scale. */
  element(row: string, column: string): string {
    const read = this.#text.load(this.#name, this.at, row, column);
    return this.#scale ? `((float)${read} - ${ZERO_BYTE}.0f)` : read;
  }

  /** True where a work-item that is a group of its own reads neighbours as vectors. */
  isInLanes(features: number, items: number): boolean {
    const isWhole = this.#scale !== null || liesAsFloats(this.at);
    return items === 1 && isWhole && this.at.column === 1 && features % LANES === 0;
  }

  /** 16 elements of a row from a column on, without its scale. */
  lanes(row: string, column: string): string {
    const place = this.#text.place(this.#name, this.at, row, column);
    const read = `vload16(0, a${this.at.input} + ${place})`;
    return this.#scale ? `(convert_float16(${read}) - ${ZERO_BYTE}.0f)` : read;
  }

  /** The product of a value with the scale of a row. */
  scaled(value: string, row: string): string {
    if (!this.#scale) return value;
    return `${value} * ${this.#text.load(`${this.#name}Scale`, this.#scale, row, "0")}`;
  }
}

/** The sum of a vector's lanes. */
const sumOf = (vector: string): string =>
  `{ const float8 h = ${vector}.lo + ${vector}.hi; const float4 g = h.lo + h.hi; ${vector}_sum = (g.x + g.z) + (g.y + g.w); }`;

/** Scores of the stretch: `s`; the largest of each row: `top`. */
function scores(text: AttentionText, rows: number, items: number): void {
  const { kernel } = text, { features, filled, isCausal } = kernel, keys = new Rows(text, "key");
  text.add(...each(rows, (r) => `float best${r} = -INFINITY;`));
  text.add(`for (int j = item; j < count; j += ${items}) {`);
  if (keys.isInLanes(features, items)) {
    text.add(
      ...each(rows, (r) => `  float16 d${r} = 0.0f; float d${r}_sum;`),
      `  for (int e = 0; e < ${features}; e += ${LANES}) {`,
      `    const float16 x = ${keys.lanes("(begin + j)", "e")};`,
      ...each(rows, (r) => `    d${r} = fma(x, vload16(0, q + ${r * features} + e), d${r});`),
      "  }",
      ...each(rows, (r) => `  ${sumOf(`d${r}`)}`),
    );
  } else {
    text.add(
      ...each(rows, (r) => `  float d${r}_sum = 0.0f;`),
      `  for (int e = 0; e < ${features}; ++e) {`,
      `    const float x = ${keys.element("(begin + j)", "e")};`,
      ...each(rows, (r) => `    d${r}_sum = fma(x, q[${r * features} + e], d${r}_sum);`),
      "  }",
    );
  }
  const cap = filled!.cap === null ? null : text.float(filled!.cap);
  text.add(...each(rows, (r) => {
    const at = isCausal && r > 0 ? ` - ${r}` : "", score = keys.scaled(`d${r}_sum`, "(begin + j)");
    const value = cap === null ? score : `${cap} * tanh(${score} / ${cap})`;
    const isNear = filled!.window === null ? "" : `begin + j${at} >= first && `;
    const isSeen = `${isNear}begin + j${at} < end`;
    return `  { const float x = ${isSeen} ? ${value} : -INFINITY; s[${
      r * KEYS
    } + j] = x; best${r} = x > best${r} || x != x ? x : best${r}; }`;
  }));
  text.add("}", ...each(rows, (r) => `red[${r * items} + item] = best${r};`));
  joinItems(text, rows, items, "top", "x > y || x != x ? x : y");
}

/** Joins what each item has of a row in `red`. */
function joinItems(
  text: AttentionText,
  rows: number,
  items: number,
  into: string,
  join: string,
): void {
  text.add(
    barrier(items),
    `for (int r = item; r < ${rows}; r += ${items}) {`,
    `  float y = red[r * ${items}];`,
    `  for (int k = 1; k < ${items}; ++k) { const float x = red[r * ${items} + k]; y = ${join}; }`,
    `  ${into}[r] = y;`,
    "}",
    barrier(items),
  );
}

/** Turns scores into exponentials against the row's largest; their sum: `total`. */
function weights(text: AttentionText, rows: number, items: number): void {
  text.add(
    `for (int r = 0; r < ${rows}; ++r) {`,
    "  const float low = top[r] == -INFINITY ? 0.0f : top[r];",
    "  float sum = 0.0f;",
    `  for (int j = item; j < count; j += ${items}) {`,
    `    const float w = exp(s[r * ${KEYS} + j] - low);`,
    `    s[r * ${KEYS} + j] = w; sum += w;`,
    "  }",
    `  red[r * ${items} + item] = sum;`,
    "}",
  );
  joinItems(text, rows, items, "total", "x + y");
}

/** Sums of values by the weights; items share a feature where there are more of them. */
function values(text: AttentionText, rows: number, items: number): void {
  const { valueFeatures } = text.kernel, all = new Rows(text, "value");
  if (all.isInLanes(valueFeatures, items)) {
    text.add(
      `for (int e = 0; e < ${valueFeatures}; e += ${LANES}) {`,
      ...each(rows, (r) => `  float16 sum${r} = 0.0f;`),
      "  for (int j = 0; j < count; ++j) {",
      `    const float16 x = ${all.scaled(all.lanes("(begin + j)", "e"), "(begin + j)")};`,
      ...each(rows, (r) => `    sum${r} = fma(x, (float16)s[${r * KEYS} + j], sum${r});`),
      "  }",
      `  float own[${LANES}];`,
      ...each(
        rows,
        (r) => `  vstore16(sum${r}, 0, own); ${give(text, r, "e + k", "own[k]", true)}`,
      ),
      "}",
    );
    return;
  }
  const shares = Math.max(1, Math.floor(items / valueFeatures)), active = shares * valueFeatures;
  if (shares > 1) text.local("parts", rows * active);
  text.add(
    shares > 1
      ? `const int share = item / ${valueFeatures}, e = item % ${valueFeatures};`
      : `for (int e = item, share = 0; e < ${valueFeatures}; e += ${items}) {`,
    ...each(rows, (r) => `float sum${r} = 0.0f;`),
    `if (share < ${shares}) for (int j = share; j < count; j += ${shares}) {`,
    `  const float x = ${all.scaled(all.element("(begin + j)", "e"), "(begin + j)")};`,
    ...each(rows, (r) => `  sum${r} = fma(x, s[${r * KEYS} + j], sum${r});`),
    "}",
  );
  if (shares > 1) {
    text.add(
      `if (share < ${shares}) {`,
      ...each(rows, (r) => `  parts[${r * active} + item] = sum${r};`),
      "}",
      barrier(items),
      "if (share == 0) {",
      `  for (int k = 1; k < ${shares}; ++k) {`,
      ...each(rows, (r) => `    sum${r} += parts[${r * active} + k * ${valueFeatures} + e];`),
      "  }",
    );
  }
  text.add(...each(rows, (r) => give(text, r, "e", `sum${r}`, false)), "}");
}

/** Stores a sum: as the result, or as that of a stretch. */
function give(text: AttentionText, r: number, e: string, sum: string, inLanes: boolean): string {
  const { kernel } = text, { valueFeatures } = kernel, l = text.index(kernel.queries);
  const loop = inLanes ? `for (int k = 0; k < ${LANES}; ++k) ` : "";
  const inside = `if (row0 + ${r} < ${l})`;
  if (stretchesOf(kernel) === 1) {
    const place = `${text.placeRow(l, `(row0 + ${r})`, valueFeatures)} + ${e}`;
    const mean = `${sum} * (top[${r}] == -INFINITY ? 0.0f : 1.0f / total[${r}])`;
    return `${inside} ${loop}${storeText("o0", kernel.outputs[0]!.dtype, place, mean)}`;
  }
  const part = partRow(text, `${r}`);
  return `${inside} { ${loop}o1[(${part}) * ${valueFeatures} + ${e}] = ${sum}; o2[2 * (${part})] = top[${r}]; o2[2 * (${part}) + 1] = total[${r}]; }`;
}

/** Joins the sums of all stretches of a row: an item a feature. */
function joined({ kernel, target }: Planned<AttentionKernel>): Generated {
  const text = new AttentionText(kernel), { valueFeatures, queries } = kernel;
  const count = headsOf(kernel) * queries * valueFeatures;
  const items = target.isGpu ? Math.min(ITEMS, count) : 1;
  const parts = text.index(stretchesOf(kernel)), l = text.index(queries);
  text.add(
    "const Index at = get_global_id(0);",
    `if (at >= ${text.index(count)}) return;`,
    `const Index all = at / ${valueFeatures}, e = at % ${valueFeatures};`,
    `const Index head = all / ${l}, row = all % ${l};`,
    "float top = -INFINITY, total = 0.0f, sum = 0.0f;",
    `for (Index part = all * ${parts}; part < (all + 1) * ${parts}; ++part) {`,
    "  const float own = o2[2 * part];",
    "  if (own == -INFINITY) continue;",
    "  const float next = own > top || own != own ? own : top;",
    "  const float former = top == -INFINITY ? 0.0f : exp(top - next), scale = exp(own - next);",
    "  total = total * former + o2[2 * part + 1] * scale;",
    `  sum = sum * former + o1[part * ${valueFeatures} + e] * scale;`,
    "  top = next;",
    "}",
    storeText(
      "o0",
      kernel.outputs[0]!.dtype,
      `${text.placeRow(l, "row", valueFeatures)} + e`,
      "top == -INFINITY ? 0.0f : sum / total",
    ),
  );
  return finish(text, Math.ceil(count / items), items, target);
}
