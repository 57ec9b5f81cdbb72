/**
 * Recurrent layers on CPU devices: a work-item takes some rows of the batch through all steps. Rows are independent of
 * each other. A step multiplies the states by the weights, then goes through the features of each row in vectors.
 */
import {
  type GateMath,
  stepGradients,
  stepValues,
  unread,
} from "../../../codegen/recurrent_gates.ts";
import { gateCounts } from "../../../graph/op.ts";
import type { RecurrenceOfSizes, SpecialKernel } from "../../../kernel/kernel.ts";
import { primitive } from "../../language/elements.ts";
import {
  add,
  type E,
  int,
  lanes,
  min,
  mul,
  type Place,
  sub,
  withExpressions,
} from "../../language/expression.ts";
import type { TileKernel } from "../../language/statements.ts";
import {
  above,
  fadd,
  float,
  fma,
  fmul,
  lane,
  load,
  loadPart,
  select,
  splat,
} from "../../language/values.ts";
import { Program } from "../../program.ts";
import { vectorUnit } from "../../units.ts";
import { blockProduct, type LaneTile } from "../attention/lane_products.ts";
import { PANEL } from "../panels/panel_product.ts";
import type { NameOf } from "../kernel_values.ts";

/** A recurrent layer. */
export type Recurrence = SpecialKernel & RecurrenceOfSizes;

/** Part of a work-item. */
export interface RecurrenceForm {
  /** Rows of the batch. */
  readonly rows: number;
  /** Features of a vector. */
  readonly lanes: 4 | 16;
  /** Rows that are multiplied together, and vectors of 16 of their products. */
  readonly tile: LaneTile;
  /** The device has a statement for products of blocks. */
  readonly byBlocks: boolean;
}

/** Some features of a row: the first of them, and how many lanes count. */
interface Features {
  readonly at: E;
  readonly count: number;
}

/** Steps of one row: places of what is stored before and after each. */
interface Step {
  readonly step: E;
  readonly before: E;
  readonly after: E;
}

const ceilTo = (n: number, step: number): number => Math.ceil(n / step) * step;

/** The kernel of all steps; inputs are buffers `a0`, ..., the output is `o0`. */
export function recurrence(kernel: Recurrence, form: RecurrenceForm, nameOf: NameOf): TileKernel {
  return withExpressions(() => new RecurrentSteps(kernel, form, nameOf).write());
}

class RecurrentSteps {
  readonly #p: Program;
  readonly #kernel: Recurrence;
  readonly #form: RecurrenceForm;
  readonly #inputs: readonly Place[];
  readonly #output: Place = { space: "global", buffer: "o0", element: "float32" };
  readonly #panel: Place | null;
  readonly #steps: E;
  readonly #batch: E;
  /** First row of the work-item, and how many there are. */
  readonly #first: E;
  readonly #count: E;
  /** Floats of a row in local memory. */
  readonly #padded: number;

  constructor(kernel: Recurrence, form: RecurrenceForm, nameOf: NameOf) {
    const p = new Program(vectorUnit(form.lanes), (value) => nameOf({ kind: "index", value }));
    this.#p = p;
    this.#kernel = kernel;
    this.#form = form;
    this.#inputs = kernel.inputs.map((dtype, k) => p.input(`a${k}`, dtype));
    this.#panel = form.byBlocks ? p.array("private", PANEL, "float") : null;
    this.#steps = p.size(kernel.steps);
    this.#batch = p.size(kernel.batch);
    this.#first = p.let(mul(p.group, form.rows));
    this.#count = p.let(min(sub(this.#batch, this.#first), form.rows));
    this.#padded = ceilTo(kernel.features, form.lanes);
  }

  write(): TileKernel {
    const { pass, batch } = this.#kernel;
    if (pass === "forward") this.#forward();
    else this.#backward();
    return this.#p.finish("recurrence", Math.max(1, Math.ceil(batch / this.#form.rows)));
  }

  #forward(): void {
    const { gates, planes, isReverse, features, columns, inputs } = this.#kernel;
    const size = gateCounts[gates], width = size.gates * columns;
    const [given, weights, first, bias] = this.#inputs as readonly [Place, Place, Place, Place];
    const sums = this.#rowsOf(width), output = this.#output;
    this.#eachVector((row, own) => {
      for (let k = 0; k < size.states; k++) {
        const value = this.#load(first, this.#row(mul(this.#batch, k), row, 1), own);
        this.#store(this.#plane(k, isReverse ? this.#steps : int(0), row), own, value);
      }
    });
    this.#eachStep(true, ({ step, before, after }) => {
      const left = { place: output, at: this.#plane(0, before, int(0)) };
      this.#multiply(left, features, weights, sums, features, width);
      this.#eachVector((row, own) => {
        const start = this.#row(mul(step, this.#batch), row, size.gates);
        const values = stepValues(gates, gateMath(this.#form.lanes), {
          input: (gate) => this.#load(given, add(start, gate * features), own),
          hidden: (gate) => {
            const product = this.#held(sums, row, width, add(own.at, gate * columns));
            if (inputs.length < 4) return product;
            return fadd(product, this.#load(bias, int(gate * features), own));
          },
          before: (plane) => this.#load(output, this.#plane(plane, before, row), own),
          after: unread,
        });
        values.slice(0, planes).forEach((value, k) =>
          this.#store(this.#plane(k, after, row), own, value)
        );
      });
    });
  }

  #backward(): void {
    const { gates, features, columns } = this.#kernel, { lanes } = this.#form;
    const { states, blocks, gates: factors } = gateCounts[gates];
    const [planes, gradient, weights] = this.#inputs as readonly [Place, Place, Place];
    // What flows to h by the product and beside it, and what flows to the other state.
    const product = this.#zeros(columns), beside = this.#zeros(this.#padded);
    const other = states > 1 ? this.#zeros(this.#padded) : beside;
    const flowing = (row: E, { at }: Features): E[] => {
      const held = (place: Place): E => this.#held(place, row, this.#padded, at);
      const toH = fadd(this.#held(product, row, columns, at), held(beside));
      return states > 1 ? [toH, held(other)] : [toH];
    };
    const block = (step: E, k: number, row: E): E =>
      add(this.#row(mul(step, this.#batch), row, blocks), k * features);
    this.#eachStep(false, ({ step, before, after }) => {
      this.#eachVector((row, own) => {
        const given = flowing(row, own).map((value, k) => {
          const place = mul(add(mul(this.#steps, k), step), this.#batch);
          return this.#p.let(fadd(value, this.#load(gradient, this.#row(place, row, 1), own)));
        });
        const known = (place: E) => (plane: number): E =>
          this.#load(planes, this.#plane(plane, place, row), own);
        const math = gateMath(lanes), cell = { before: known(before), after: known(after) };
        const found = stepGradients(gates, math, cell, given);
        found.blocks.forEach((value, k) => this.#store(block(step, k, row), own, value));
        found.direct.forEach((value, k) =>
          this.#p.store(k === 0 ? beside : other, add(mul(row, this.#padded), own.at), value)
        );
      });
      const left = { place: this.#output, at: block(step, blocks - factors, int(0)) };
      this.#multiply(left, blocks * features, weights, product, factors * features, columns);
    });
    this.#eachVector((row, own) =>
      flowing(row, own).forEach((value, k) => this.#store(block(this.#steps, k, row), own, value))
    );
  }

  /** All steps, in the order of the recurrence or against it. */
  #eachStep(isForward: boolean, body: (step: Step) => void): void {
    const { isReverse } = this.#kernel, p = this.#p;
    p.loop(this.#steps, (at) => {
      const isCounted = isForward !== isReverse;
      const step = p.let(isCounted ? at : sub(sub(this.#steps, 1), at)), next = add(step, 1);
      body({ step, before: isReverse ? next : step, after: isReverse ? step : next });
    }, 1);
  }

  /** The features of each row in vectors; lanes behind the last do not count. */
  #eachVector(body: (row: E, own: Features) => void): void {
    const p = this.#p, { features } = this.#kernel, { lanes: count } = this.#form;
    const vectors = Math.floor(features / count), rest = features % count;
    p.loop(this.#count, (row) => {
      p.loop(int(vectors), (k) => body(row, { at: mul(k, count), count }), 1);
      if (rest > 0) body(row, { at: int(vectors * count), count: rest });
    }, 1);
  }

  /** The first feature of a row behind `place` rows of all, which have so many blocks of features. */
  #row(place: E, row: E, blocks: number): E {
    return mul(add(place, this.#first, row), blocks * this.#kernel.features);
  }

  /** The first feature of a row in a plane. */
  #plane(plane: number, place: E, row: E): E {
    const step = plane === 0 ? place : add(mul(add(this.#steps, 1), plane), place);
    return this.#row(mul(step, this.#batch), row, 1);
  }

  #load(place: Place, row: E, { at, count }: Features): E {
    const width = this.#form.lanes, first = add(row, at);
    const isWhole = count === width;
    return this.#p.let(
      isWhole ? load(place, add(first, lanes(width))) : loadPart(place, first, int(count), width),
    );
  }

  #store(row: E, { at, count }: Features, value: E): void {
    const p = this.#p, index = add(row, at), output = this.#output;
    if (count === this.#form.lanes) return p.store(output, index, value);
    const all = p.let(value);
    for (let k = 0; k < count; k++) p.store(output, add(index, k), lane(all, k));
  }

  /** Local memory for so many floats of each row, of whole tiles of rows. */
  #rowsOf(width: number): Place {
    const { rows, tile } = this.#form;
    return this.#p.array("local", ceilTo(rows, tile.step) * width, "float");
  }

  #zeros(width: number): Place {
    const p = this.#p, { rows, lanes } = this.#form, place = this.#rowsOf(width);
    const zero = splat(float(0), lanes);
    p.loop(int(rows * width / lanes), (k) => p.store(place, mul(k, lanes), zero), 1);
    return place;
  }

  /** Features of a row in local memory. */
  #held(place: Place, row: E, width: number, at: E): E {
    return this.#p.let(load(place, add(mul(row, width), at, lanes(this.#form.lanes))));
  }

  /** The products of rows that lie `pitch` floats apart with weights. */
  #multiply(
    left: { readonly place: Place; readonly at: E },
    pitch: number,
    right: Place,
    into: Place,
    terms: number,
    columns: number,
  ): void {
    blockProduct(this.#p, this.#panel, this.#form.tile, {
      left: { ...left, row: int(pitch), term: int(1) },
      right,
      into,
      rows: this.#count,
      count: int(terms),
      columns,
      pitch: columns,
      isAdded: false,
    });
  }
}

/** Arithmetic of gates on vectors. */
function gateMath(lanes: number): GateMath<E> {
  return {
    float: (value) => splat(float(value), lanes),
    add: fadd,
    sub: (a, b) => primitive("sub", [a, b], "float32"),
    mul: fmul,
    madd: fma,
    lt: (a, b) => above(b, a),
    gt: above,
    select,
    sigmoid: (x) => primitive("sigmoid", [x], "float32"),
    tanh: (x) => primitive("tanh", [x], "float32"),
  };
}
