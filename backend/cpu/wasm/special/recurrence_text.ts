/**
 * The WebAssembly of recurrent layers: a thread takes some rows of the batch through all steps. Rows are
 * independent of each other, so threads meet at the end only. A step multiplies the states by the weights,
 * tile by tile into sums of the thread, then goes through the features of each row.
 */
import { sigmoid, tanh } from "../../../codegen/functions/exponentials.ts";
import {
  type GateMath,
  stepGradients,
  stepValues,
  unread,
} from "../../../codegen/recurrent_gates.ts";
import { gateCounts, type RecurrenceOp } from "../../../graph/op.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { VectorMath } from "../math.ts";
import { i32, v128 } from "../opcodes.ts";
import { PANEL_SUMS, rowOffsets, RowPanel } from "../products/row_panel.ts";
import { TileProducts, type TileSize } from "../products/tile_sums.ts";

/** The arguments, in order; sizes and tables of offsets are in bytes where nothing else is said. */
export const recurrenceArguments = [
  /** Forward: what the inputs give each step, the first state, the bias of the product with h. */
  "input",
  "first",
  "bias",
  "weight",
  "planes",
  /** Backward: the gradient of the states, and the result. */
  "gradient",
  "found",
  /** Address of the threads' sums, and the bytes of each. */
  "scratch",
  "scratchBytes",
  /** Tables: where the left operand has each row of the batch, and each summed index. */
  "aRows",
  "aSums",
  /** Summed indices. */
  "k",
  /** A row of the weights, and of the sums. */
  "columnBytes",
  /** A row of a plane, and all rows of a step. */
  "rowBytes",
  "stepBytes",
  "planeBytes",
  /** Rows of the batch: all, and those that are taken through the steps at once. */
  "batch",
  "blockRows",
  "steps",
  /** First step in time, and direction of the steps. */
  "firstStep",
  "direction",
] as const;

type Argument = typeof recurrenceArguments[number];

/** Dependencies of a module's text; sizes are arguments. */
export interface RecurrenceForm {
  readonly pass: RecurrenceOp["pass"];
  readonly gates: RecurrenceOp["gates"];
  readonly isReverse: boolean;
  /** Values that are stored for each feature and step of a forward pass. */
  readonly planes: number;
  readonly hasBias: boolean;
  readonly tile: TileSize;
  readonly relaxed: boolean;
}

/** The module that takes blocks `begin` to `end` of the batch's rows through all steps. */
export function makeRecurrence(form: RecurrenceForm): Uint8Array<ArrayBuffer> {
  return new RecurrenceWriter(form).write();
}

/** The rows of a task, and where its thread keeps sums. */
interface Rows {
  readonly first: Local;
  readonly end: Local;
  readonly scratch: Local;
}

/** A step: where it lies in time, and its states before and after it in the first plane. */
interface Step {
  readonly step: Local;
  readonly before: Local;
  readonly after: Local;
}

class RecurrenceWriter {
  readonly #f = new FunctionBuilder();
  readonly #form: RecurrenceForm;
  readonly #math: VectorMath;
  readonly #gates: GateMath<Local>;
  readonly #panel: RowPanel;
  readonly #products: TileProducts;

  constructor(form: RecurrenceForm) {
    this.#form = form;
    const math = this.#math = new VectorMath(this.#f, form.relaxed);
    this.#gates = Object.assign(math, {
      sigmoid: (x: Local) => sigmoid(math, x),
      tanh: (x: Local) => tanh(math, x),
    });
    this.#panel = new RowPanel(this.#f, null, true);
    this.#products = new TileProducts(this.#f, math, this.#panel, form.tile);
  }

  #arg(name: Argument): Local {
    const offset = 4 * recurrenceArguments.indexOf(name), { args } = FunctionBuilder.parameters;
    return this.#f.once(name, () => this.#f.loadNumber(i32.load, args, offset));
  }

  #sum(...terms: readonly Local[]): Local {
    return terms.reduce((a, b) => this.#f.i(i32.add, a, b));
  }

  #product(a: Local, b: Local): Local {
    return this.#f.i(i32.mul, a, b);
  }

  /** So many times an argument, computed once. */
  #times(name: Argument, count: number): Local {
    return this.#f.once(`${count} ${name}`, () => this.#f.iWith(i32.mul, this.#arg(name), count));
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end, thread } = FunctionBuilder.parameters;
    f.loop(begin, end, 1, (task) => {
      const first = this.#product(task, this.#arg("blockRows"));
      const last = f.smaller(this.#sum(first, this.#arg("blockRows")), this.#arg("batch"));
      const before = this.#product(thread, this.#arg("scratchBytes"));
      const rows = { first, end: last, scratch: this.#sum(this.#arg("scratch"), before) };
      if (this.#form.pass === "forward") this.#forward(rows);
      else this.#backward(rows);
    });
    return f.finish(true);
  }

  /** All steps, in the order of the recurrence or against it. */
  #steps(isForward: boolean, body: (step: Step) => void): void {
    const f = this.#f, { isReverse } = this.#form, step = f.number();
    const last = this.#product(f.iWith(i32.sub, this.#arg("steps"), 1), this.#arg("direction"));
    const start = this.#arg("firstStep");
    f.assign(step, isForward ? start : this.#sum(start, last));
    f.loop(f.integer(0), this.#arg("steps"), 1, () => {
      const early = this.#sum(
        this.#arg("planes"),
        this.#product(step, this.#arg("stepBytes")),
      );
      const late = this.#sum(early, this.#arg("stepBytes"));
      body({ step, before: isReverse ? late : early, after: isReverse ? early : late });
      f.assign(step, f.i(isForward ? i32.add : i32.sub, step, this.#arg("direction")));
    });
  }

  /** The product of the rows that begin at `left` with the weights, into the thread's sums. */
  #multiply(left: Local, { first, end, scratch }: Rows): void {
    const f = this.#f, { rows, vectors } = this.#form.tile, width = this.#arg("columnBytes");
    f.loop(first, end, rows, (row) => {
      const to = this.#sum(scratch, this.#product(f.i(i32.sub, row, first), width));
      f.loop(f.integer(0), this.#arg("k"), PANEL_SUMS, (sum) => {
        const sumEnd = f.smaller(f.iWith(i32.add, sum, PANEL_SUMS), this.#arg("k"));
        this.#panel.fill({
          base: left,
          rows: rowOffsets(f, f.wordAt(this.#arg("aRows"), row), rows),
          sums: {
            begin: f.wordAt(this.#arg("aSums"), sum),
            end: f.wordAt(this.#arg("aSums"), sumEnd),
          },
        });
        const length = f.i(i32.sub, sumEnd, sum);
        const weight = this.#sum(this.#arg("weight"), this.#product(sum, width));
        f.loop(f.integer(0), width, 16 * vectors, (column) => {
          const columns = this.#products.columns(this.#sum(weight, column), width);
          const sums = this.#products.sums(columns, length, true);
          this.#products.keep(this.#sum(to, column), width, sums, sum);
        });
      });
    });
  }

  /** `body` for the features of a row: four at a time, then one at a time. */
  #features(body: (features: Features) => void): void {
    const f = this.#f, at = f.number();
    f.assign(at, f.integer(0));
    for (const lanes of [4, 1] as const) {
      const end = lanes === 1
        ? this.#arg("rowBytes")
        : f.once("whole vectors", () => f.iWith(i32.and, this.#arg("rowBytes"), -16));
      f.whileLess(at, end, () => {
        body(new Features(f, lanes, at));
        f.step(at, 4 * lanes);
      });
    }
  }

  #forward(rows: Rows): void {
    const f = this.#f, { gates, isReverse, planes, hasBias } = this.#form;
    const size = gateCounts[gates], rowBytes = this.#arg("rowBytes");
    const offset = this.#product(rows.first, rowBytes);
    const bytes = this.#product(f.i(i32.sub, rows.end, rows.first), rowBytes);
    const behind = this.#product(this.#arg("steps"), this.#arg("stepBytes"));
    for (let k = 0; k < size.states; k++) {
      const from = this.#sum(this.#arg("first"), this.#times("stepBytes", k), offset);
      const to = this.#sum(this.#arg("planes"), this.#times("planeBytes", k), offset);
      f.copyBytes(isReverse ? this.#sum(to, behind) : to, from, bytes);
    }
    this.#steps(true, ({ step, before, after }) => {
      this.#multiply(before, rows);
      f.loop(rows.first, rows.end, 1, (row) => {
        const place = this.#sum(this.#product(step, this.#arg("batch")), row);
        const input = this.#sum(
          this.#arg("input"),
          this.#product(place, this.#times("rowBytes", size.gates)),
        );
        const inner = this.#product(f.i(i32.sub, row, rows.first), this.#arg("columnBytes"));
        const sums = this.#sum(rows.scratch, inner), own = this.#product(row, rowBytes);
        this.#features((features) => {
          const plane = (start: Local, k: number): Local =>
            this.#sum(start, own, this.#times("planeBytes", k));
          const values = stepValues(gates, this.#gates, {
            input: (gate) => features.load(this.#sum(input, this.#times("rowBytes", gate))),
            hidden: (gate) => {
              const product = features.load(this.#sum(sums, this.#gateColumns(gate)));
              if (!hasBias) return product;
              const bias = this.#sum(this.#arg("bias"), this.#times("rowBytes", gate));
              return this.#math.add(product, features.load(bias));
            },
            before: (k) => features.load(plane(before, k)),
            after: unread,
          });
          values.slice(0, planes).forEach((value, k) => features.store(plane(after, k), value));
        });
      });
    });
  }

  /** Start of a gate's columns in a row of sums. */
  #gateColumns(gate: number): Local {
    const f = this.#f, { gates } = gateCounts[this.#form.gates];
    return f.once(`columns of gate ${gate}`, () => {
      const all = f.iWith(i32.mul, this.#arg("columnBytes"), gate);
      return f.i(i32.divU, all, f.integer(gates));
    });
  }

  #backward(rows: Rows): void {
    const f = this.#f, { gates } = this.#form, rowBytes = this.#arg("rowBytes");
    const { states, blocks, gates: count } = gateCounts[gates];
    const foundBytes = this.#times("rowBytes", blocks);
    this.#clear(rows.scratch);
    // Behind the products: what flows to h beside them, and what flows to the other state.
    const product = this.#product(this.#tileRows(), this.#arg("columnBytes"));
    const beside = this.#sum(rows.scratch, product);
    const other = this.#sum(beside, this.#product(this.#arg("blockRows"), rowBytes));
    const flowing = (row: Local, features: Features): Local[] => {
      const local = f.i(i32.sub, row, rows.first), own = this.#product(local, rowBytes);
      const through = this.#sum(rows.scratch, this.#product(local, this.#arg("columnBytes")));
      const toH = this.#math.add(
        features.load(through),
        features.load(this.#sum(beside, own)),
      );
      return states > 1 ? [toH, features.load(this.#sum(other, own))] : [toH];
    };
    const result = (step: Local, row: Local, block: number): Local => {
      const place = this.#sum(this.#product(step, this.#arg("batch")), row);
      const start = this.#sum(this.#arg("found"), this.#product(place, foundBytes));
      return this.#sum(start, this.#times("rowBytes", block));
    };
    this.#steps(false, ({ step, before, after }) => {
      f.loop(rows.first, rows.end, 1, (row) => {
        const own = this.#product(row, rowBytes);
        const local = this.#product(f.i(i32.sub, row, rows.first), rowBytes);
        this.#features((features) => {
          const plane = (start: Local, k: number): Local =>
            features.load(this.#sum(start, own, this.#times("planeBytes", k)));
          const arriving = flowing(row, features).map((value, k) => {
            const at = this.#sum(this.#product(f.integer(k), this.#arg("steps")), step);
            const start = this.#product(at, this.#arg("stepBytes"));
            return this.#math.add(
              value,
              features.load(this.#sum(this.#arg("gradient"), start, own)),
            );
          });
          const found = stepGradients(gates, this.#gates, {
            before: (k) => plane(before, k),
            after: (k) => plane(after, k),
          }, arriving);
          found.blocks.forEach((value, k) => features.store(result(step, row, k), value));
          found.direct.forEach((value, k) =>
            features.store(this.#sum(k === 0 ? beside : other, local), value)
          );
        });
      });
      this.#multiply(result(step, f.integer(0), blocks - count), rows);
    });
    f.loop(rows.first, rows.end, 1, (row) => {
      this.#features((features) => {
        flowing(row, features).forEach((value, k) =>
          features.store(result(this.#arg("steps"), row, k), value)
        );
      });
    });
  }

  /** Rows of the thread's sums: those of whole tiles. */
  #tileRows(): Local {
    const f = this.#f, { rows } = this.#form.tile, size = f.integer(rows);
    const tiles = f.i(i32.divU, f.iWith(i32.add, this.#arg("blockRows"), rows - 1), size);
    return f.i(i32.mul, tiles, size);
  }

  /** Nothing flows to the last states but their own gradients. */
  #clear(scratch: Local): void {
    const f = this.#f, end = this.#sum(scratch, this.#arg("scratchBytes")), at = f.number();
    f.assign(at, scratch);
    f.whileLess(at, end, () => {
      f.store(v128.store, at, f.splat(0));
      f.step(at, 16);
    }, i32.ltU);
  }
}

/** Some features of a row, at an offset from where the row begins. */
class Features {
  readonly #f: FunctionBuilder;
  readonly #lanes: 4 | 1;
  readonly #at: Local;

  constructor(f: FunctionBuilder, lanes: 4 | 1, at: Local) {
    this.#f = f;
    this.#lanes = lanes;
    this.#at = at;
  }

  load(row: Local): Local {
    const place = this.#f.i(i32.add, row, this.#at);
    return this.#f.load(this.#lanes === 4 ? v128.load : v128.loadSplat, place);
  }

  store(row: Local, value: Local): void {
    const place = this.#f.i(i32.add, row, this.#at);
    if (this.#lanes === 4) this.#f.store(v128.store, place, value);
    else this.#f.store(v128.store32Lane, place, value, 0, 0);
  }
}
