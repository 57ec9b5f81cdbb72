/**
 * Contractions in WebAssembly. Whatever the loops are, an element of an operand lies at the sum of
 * one offset for its rows and one for its summed indices, and tables hold those: matrices, their
 * transposes, batches of them and windows of images are all multiplied without being copied. Only
 * an operand whose columns do not lie side by side is, in the order that tiles read it.
 */
import { coefficient, type Form } from "../../graph/affine.ts";
import { isFloat } from "../../graph/dtype.ts";
import { type Contraction, extent, type Load, type LoopKernel } from "../../graph/kernel.ts";
import { epilogueOf, pack, rowMajor } from "../gemm_plan.ts";
import type { GemmHost } from "../gemm_runner.ts";
import type { HostBlock, Runner } from "../runner.ts";
import type { WasmKernel, WasmRuntime } from "./runtime.ts";
import {
  makePacking,
  makeProduct,
  productArguments,
  TILE_COLUMNS,
  TILE_ROWS,
  type TileForm,
} from "./tile.ts";

/** Fewer multiplications than this are quicker in JavaScript. */
const LEAST = 1024;
/** Rows, panels and summed indices of a block: its operands stay in a core's caches. */
const BLOCK_ROWS = 96, BLOCK_PANELS = 32, BLOCK_SUMS = 512;
/** Multiplications of a block of good size: about 20 microseconds. */
const BLOCK_WORK = 500_000;
/** Less than this is not worth a block of its own. */
const LEAST_BLOCK_WORK = 40_000;
/** Multiplications that a core does in a nanosecond, and elements that it copies. */
const SPEED = 24, COPY_SPEED = 2;
/** An operand larger than this in bytes is not read row by row: that takes too many pages. */
const MOST_STRIDED = 2 ** 19;
/** Bytes between two elements that are far from each other, and how often they must be read. */
const FAR = 1024, LEAST_READS = 64;

/** An operand or the result as offsets in bytes. */
interface Side {
  readonly rows: Int32Array;
  readonly columns: Int32Array;
  readonly batch: Int32Array;
}

/** Offsets in bytes over symbols in row-major order. */
function offsetsOf(kernel: LoopKernel, form: Form, symbols: readonly number[]): Int32Array {
  let offsets = Int32Array.of(0);
  for (const s of symbols) {
    const size = kernel.sizes[s]!, step = 4 * coefficient(form, s);
    const next = new Int32Array(offsets.length * size);
    for (let k = 0, at = 0; k < offsets.length; k++) {
      for (let i = 0; i < size; i++) next[at++] = offsets[k]! + i * step;
    }
    offsets = next;
  }
  return offsets;
}

function adjoin(offsets: Int32Array): boolean {
  return offsets.every((offset, k) => offset === offsets[0]! + 4 * k);
}

/** Nanoseconds to store an element of a tile. */
const storeCosts = { columns: 0.1, rows: 0.3, nothing: 2 } as const;

function adjoining({ rows, columns }: Side): TileForm["adjoining"] {
  if (adjoin(columns)) return "columns";
  const areRows = rows.every((offset, i) =>
    offset === rows[i - i % TILE_ROWS]! + 4 * (i % TILE_ROWS)
  );
  return areRows ? "rows" : "nothing";
}

/** The step between offsets, or null where it changes. */
function stepOf(offsets: Int32Array): number | null {
  const step = offsets.length > 1 ? offsets[1]! - offsets[0]! : 0;
  return offsets.every((offset, k) => offset === offsets[0]! + k * step) ? step : null;
}

/** One way to compute a contraction: which operand's elements are spread, which lies in vectors. */
interface Plan {
  /** The second operand is on the left. */
  readonly isSwapped: boolean;
  readonly a: Side;
  readonly b: Side;
  readonly c: Side;
  readonly batches: number;
  readonly m: number;
  readonly n: number;
  readonly k: number;
  /** From one summed index of b to the next; null: b is copied into panels first. */
  readonly step: number | null;
  readonly cost: number;
}

function planSides(
  kernel: LoopKernel,
  c: Contraction,
  target: Form,
  isSwapped: boolean,
): Plan {
  const [left, right] = isSwapped ? [c.b, c.a] : [c.a, c.b];
  const [rows, columns] = isSwapped ? [c.n, c.m] : [c.m, c.n];
  const side = (form: Form, down: readonly number[], along: readonly number[]): Side => ({
    rows: offsetsOf(kernel, form, down),
    columns: offsetsOf(kernel, form, along),
    batch: offsetsOf(kernel, form, c.batch).map((offset) => offset + 4 * form.offset),
  });
  const a = side(left.form, rows, c.k);
  const b = side(right.form, c.k, columns);
  const out = side(target, rows, columns);
  const m = a.rows.length, n = b.columns.length, k = a.columns.length;
  const batches = out.batch.length;
  const step = stepOf(b.rows);
  const isNear = step !== null && (Math.abs(step) * k < MOST_STRIDED || m <= 4 * TILE_ROWS);
  const isDirect = isNear && n % TILE_COLUMNS === 0 && adjoin(b.columns);
  const work = m * Math.ceil(n / TILE_COLUMNS) * TILE_COLUMNS * k / SPEED;
  const copying = isDirect ? 0 : n * k / COPY_SPEED;
  const storing = m * n * storeCosts[adjoining(out)];
  const strided = adjoin(a.columns) ? 1 : 1.1;
  const cost = batches * (work * strided + copying + storing);
  return {
    isSwapped,
    a,
    b,
    c: out,
    batches,
    m,
    n,
    k,
    step: isDirect ? step : null,
    cost,
  };
}

/** A runner for a contraction of floats, or null where there is nothing to gain. */
export function contractionRunner(
  kernel: LoopKernel,
  runtime: WasmRuntime,
  host: GemmHost,
  otherwise: () => Runner,
): Runner | null {
  const given = kernel.contraction;
  if (!given || !isFloat(given.dtype) || given.dtype === "float64") return null;
  if (given.a.guards.length + given.b.guards.length > 0) return null;
  if (extent(kernel, kernel.outer) * extent(kernel, kernel.inner) < LEAST) return null;
  const output = kernel.outputs.findIndex((o) => o.dtype === "float32");
  const target = output < 0 ? rowMajor(kernel, kernel.outer) : kernel.outputs[output]!.form;
  const copies: [boolean, boolean] = [given.a.dtype !== "float32", given.b.dtype !== "float32"];
  const { plan: first } = choose(kernel, given, target, copies, host);
  if (isFar(first)) copies[first.isSwapped ? 1 : 0] = true;
  const { plan, prepared } = choose(kernel, given, target, copies, host);
  const epilogue = epilogueOf(kernel, "float32", target, output < 0 ? null : output);
  const after = epilogue && host.compile(epilogue);
  const product = new ProductRunner(plan, runtime, host);
  let plain: Runner | null = null;
  return {
    source: [
      ...prepared.flatMap(({ copy }) => copy ? [copy.source] : []),
      describe(plan),
      ...after ? [after.source] : [],
    ].join("\n"),
    run(inputs, outputs) {
      const isElsewhere = (block: HostBlock): boolean => runtime.memory.addressOf(block) === null;
      if (inputs.some(isElsewhere) || outputs.some(isElsewhere)) {
        return (plain ??= otherwise()).run(inputs, outputs);
      }
      withOperand(host, prepared[0]!, inputs, (x) => {
        withOperand(host, prepared[1]!, inputs, (y) => {
          const finish = (c: HostBlock): void => {
            if (plan.isSwapped) product.run(y, x, c);
            else product.run(x, y, c);
            after?.run([...inputs, c], outputs);
          };
          if (output >= 0) finish(outputs[output]!);
          else host.withScratch("float32", extent(kernel, kernel.outer), finish);
        });
      });
    },
  };
}

/** An operand as floats: where it lies, or a copy of half floats. */
interface Operand {
  readonly load: Load;
  readonly copy: Runner | null;
  readonly size: number;
}

/** The cheaper of the two ways round, with some operands copied first. */
function choose(
  kernel: LoopKernel,
  c: Contraction,
  target: Form,
  copies: readonly [boolean, boolean],
  host: GemmHost,
): { plan: Plan; prepared: readonly [Operand, Operand] } {
  const prepare = (load: Load, which: 0 | 1): Operand =>
    copies[which] ? copied(kernel, c, load, which, host) : { load, copy: null, size: 0 };
  const prepared = [prepare(c.a, 0), prepare(c.b, 1)] as const;
  const loads = { ...c, a: prepared[0].load, b: prepared[1].load };
  const straight = planSides(kernel, loads, target, false);
  const swapped = planSides(kernel, loads, target, true);
  return { plan: swapped.cost < straight.cost ? swapped : straight, prepared };
}

/** Whether the left operand's summed indices are pages apart, and it is read often. */
function isFar({ a, n, k }: Plan): boolean {
  const step = Math.abs(stepOf(a.columns) ?? 0);
  return step >= FAR && step * k > MOST_STRIDED && n >= LEAST_READS;
}

/** A row-major copy of an operand, as floats. */
function copied(
  kernel: LoopKernel,
  c: Contraction,
  load: Load,
  which: 0 | 1,
  host: GemmHost,
): Operand {
  const moving = c.batch.filter((s) => coefficient(load.form, s) !== 0);
  const symbols = [...moving, ...which === 0 ? [...c.m, ...c.k] : [...c.n, ...c.k]];
  const packed = pack(kernel, load, symbols, "float32");
  return { load: packed.load, copy: host.compile(packed.kernel), size: packed.size };
}

function withOperand(
  host: GemmHost,
  { load, copy, size }: Operand,
  inputs: readonly HostBlock[],
  use: (block: HostBlock) => void,
): void {
  const input = inputs[load.input]!;
  if (copy === null) return use(input);
  host.withScratch("float32", size, (block) => {
    copy.run([input], [block]);
    use(block);
  });
}

function describe({ batches, m, n, k, step }: Plan): string {
  const times = batches > 1 ? `${batches} times ` : "";
  const how = step === null ? ", the right one in panels" : "";
  return `// WebAssembly SIMD: ${times}${m} x ${k} by ${k} x ${n}, float32${how}`;
}

/** Multiplies: tables, panels, tiles. */
class ProductRunner {
  readonly #plan: Plan;
  readonly #runtime: WasmRuntime;
  readonly #host: GemmHost;
  readonly #product: WasmKernel;
  readonly #packing: WasmKernel | null;
  /** All tables, one behind the other, and where each begins in bytes. */
  readonly #tables: Int32Array;
  readonly #bytes: Uint8Array;
  readonly #places: Readonly<Record<string, number>>;
  /** The product's arguments, tables by where they begin behind the first. */
  readonly #arguments: readonly { readonly value: number; readonly isTable: boolean }[];
  readonly #tasks: number;
  readonly #panels: number;
  /** Different matrices on the right. */
  readonly #matrices: number;

  constructor(plan: Plan, runtime: WasmRuntime, host: GemmHost) {
    this.#plan = plan;
    this.#runtime = runtime;
    this.#host = host;
    const { a, b, c, m, n, k, batches, step } = plan;
    const { relaxed } = runtime;
    const form = { sumsAdjoin: adjoin(a.columns), adjoining: adjoining(c), relaxed };
    this.#product = runtime.compile(makeProduct({ ...form, rest: m % TILE_ROWS }));
    this.#packing = step === null ? runtime.compile(makePacking(adjoin(b.columns))) : null;
    this.#panels = Math.ceil(n / TILE_COLUMNS);
    const panelBytes = 4 * TILE_COLUMNS * k;
    const panels = Int32Array.from(
      { length: this.#panels },
      (_, p) => step === null ? p * panelBytes : b.columns[p * TILE_COLUMNS]!,
    );
    const matrices = distinct(b.batch);
    this.#matrices = matrices.length;
    const places = new Map(
      [...matrices].map((offset, i) => [offset, i * this.#panels * panelBytes]),
    );
    const bBatch = step === null ? b.batch.map((offset) => places.get(offset)!) : b.batch;
    const blocks = chooseBlocks(m, n, k, batches, runtime.team.size);
    this.#tasks = batches * blocks.rowBlocks * blocks.panelBlocks;
    const numbers: Record<string, number> = {
      ...blocks,
      m,
      n,
      k,
      bStep: step ?? 4 * TILE_COLUMNS,
      blockSums: BLOCK_SUMS,
    };
    const tables: Record<string, Int32Array> = {
      aRows: a.rows,
      aSums: a.columns,
      bPanels: panels,
      cRows: c.rows,
      cColumns: c.columns,
      aBatch: a.batch,
      bBatch,
      cBatch: c.batch,
      ...step === null ? { columns: b.columns, sums: b.rows, batch: matrices } : {},
    };
    const begins: Record<string, number> = {};
    let length = 0;
    for (const [name, table] of Object.entries(tables)) {
      begins[name] = 4 * length;
      length += table.length;
    }
    this.#tables = new Int32Array(length);
    for (const [name, table] of Object.entries(tables)) this.#tables.set(table, begins[name]! / 4);
    this.#bytes = new Uint8Array(this.#tables.buffer);
    this.#places = begins;
    this.#arguments = productArguments.map((name) => {
      const table = begins[name];
      return { value: table ?? numbers[name] ?? 0, isTable: table !== undefined };
    });
  }

  run(a: HostBlock, b: HostBlock, c: HostBlock): void {
    this.#host.withScratch("float32", this.#tables.length, (block) => {
      const { memory } = this.#runtime;
      const tables = memory.addressOf(block)!;
      memory.bytes(tables, this.#bytes.length).set(this.#bytes);
      const right = memory.addressOf(b)!;
      if (this.#packing === null) return this.#multiply(a, right, c, tables);
      const size = this.#matrices * this.#panels * TILE_COLUMNS * this.#plan.k;
      this.#host.withScratch("float32", size, (panels) => {
        const to = memory.addressOf(panels)!;
        this.#pack(right, to, tables);
        this.#multiply(a, to, c, tables);
      });
    });
  }

  #pack(from: number, to: number, tables: number): void {
    const { columns, sums, batch } = this.#places;
    const { n, k } = this.#plan;
    const { words } = this.#runtime;
    words.set([
      from,
      to,
      tables + columns!,
      tables + sums!,
      tables + batch!,
      n,
      k,
      this.#panels,
    ]);
    const count = this.#matrices * this.#panels;
    this.#runtime.run(this.#packing!, count, 1, count * TILE_COLUMNS * k / COPY_SPEED);
  }

  #multiply(a: HostBlock, b: number, c: HostBlock, tables: number): void {
    const { words, memory } = this.#runtime;
    this.#arguments.forEach(({ value, isTable }, place) => {
      words[place] = isTable ? tables + value : value;
    });
    // The first three are the matrices.
    words[0] = memory.addressOf(a)!;
    words[1] = b;
    words[2] = memory.addressOf(c)!;
    this.#runtime.run(this.#product, this.#tasks, 1, this.#plan.cost);
  }
}

/** The offsets that differ, in order of appearance: broadcast matrices are copied once. */
function distinct(offsets: Int32Array): Int32Array {
  return Int32Array.from(new Set(offsets));
}

/** Blocks small enough that all threads have some, large enough that each is worth taking. */
function chooseBlocks(m: number, n: number, k: number, batches: number, threads: number) {
  const panels = Math.ceil(n / TILE_COLUMNS);
  let blockRows = Math.min(BLOCK_ROWS, Math.ceil(m / TILE_ROWS) * TILE_ROWS);
  let blockPanels = Math.min(BLOCK_PANELS, panels);
  const work = () => blockRows * blockPanels * TILE_COLUMNS * k;
  const count = () => batches * Math.ceil(m / blockRows) * Math.ceil(panels / blockPanels);
  const isCoarse = () =>
    work() > BLOCK_WORK && count() < 8 * threads ||
    work() > LEAST_BLOCK_WORK && count() < 2 * threads;
  while (isCoarse() && blockPanels > 4) blockPanels = Math.ceil(blockPanels / 2);
  while (isCoarse() && blockRows > 2 * TILE_ROWS) {
    blockRows = Math.ceil(blockRows / 2 / TILE_ROWS) * TILE_ROWS;
  }
  return {
    blockRows,
    blockPanels,
    rowBlocks: Math.ceil(m / blockRows),
    panelBlocks: Math.ceil(panels / blockPanels),
  };
}
