/**
 * Blocks of attention of a few queries to many keys, as of a text that is written token by token: a work-item has a
 * piece of the features of all rows, so each key and each value is read once, where it lies, for all queries. On GPUs
 * neighbours share a key, and a warp has several of them; on CPUs a vector has a piece, and a work-item all keys.
 */
import { held } from "../../language/elements.ts";
import {
  add,
  div,
  type E,
  int,
  lanes,
  min,
  mod,
  mul,
  type Place,
  sub,
} from "../../language/expression.ts";
import {
  fadd,
  float,
  fma,
  fmul,
  lane,
  laneSum,
  load,
  loadVector,
  lt,
  select,
  splat,
  toFloat,
  unpacked,
} from "../../language/values.ts";
import { WARP } from "../../matrix_units.ts";
import type { Program } from "../../program.ts";
import {
  type Grid,
  RowBlocks,
  type StoredRows,
  storeLanes,
  type Turn,
  valueAt,
  type Walk,
  type WeightedSum,
} from "./blocks.ts";
import { elementBytes, type FeatureForm, keysOfTurn, runOf } from "./feature_form.ts";
import type { Operand } from "./head_values.ts";

/** A work-item's pieces of rows: each has neighbouring features. */
interface Pieces {
  readonly operand: Operand;
  readonly run: number;
  readonly count: number;
}

/** The blocks of a group. */
export class FeatureBlocks extends RowBlocks {
  readonly p: Program;
  readonly rows: number;
  readonly columns: number;
  readonly own: number;
  override readonly isFast: boolean;
  override readonly isApart: boolean;
  override readonly unroll: number;
  readonly #form: FeatureForm;
  /** The work-item's number among those that share a key, and that of its first key. */
  readonly #lane: E;
  readonly #key: E;
  readonly #space: "private" | "local";
  /** Queries, feature by feature. */
  #queries: E[][] = [];

  constructor(p: Program, form: FeatureForm) {
    const { rows, across, items, isGPU, isFast } = form;
    super();
    this.p = p;
    this.#form = form;
    this.rows = rows;
    this.own = rows;
    this.columns = keysOfTurn(form);
    this.isFast = isFast;
    this.isApart = items > across;
    this.unroll = isGPU ? Infinity : 1;
    this.#space = isGPU ? "private" : "local";
    this.#lane = p.let(mod(p.item, across));
    this.#key = p.let(div(p.item, across));
  }

  row(row: number): E {
    return int(row);
  }

  /** Keys that a group has at a time, and turns of a work-item over those of a block. */
  get #groups(): number {
    return this.#form.items / this.#form.across;
  }

  get #turns(): number {
    return this.columns / this.#groups;
  }

  /** Floats of a value: vectors on CPUs. */
  #width(run: number): number {
    return this.#form.isGPU ? 1 : run;
  }

  #pieces(operand: Operand, run: number): Pieces {
    return { operand, run, count: Math.ceil(operand.features / run / this.#form.across) };
  }

  /** Runs a body for each of a work-item's turns, one after the other on GPUs. */
  #each(body: (turn: E) => void): void {
    if (!this.#form.isGPU) return this.p.loop(int(this.#turns), body, 1);
    for (let turn = 0; turn < this.#turns; turn++) body(int(turn));
  }

  /** First feature of a piece, which need not be there. */
  #feature(run: number, piece: number): E {
    return mul(add(this.#lane, piece * this.#form.across), run);
  }

  /** Neighbours as they are read: words on GPUs, as far as rows begin at such. */
  #read({ operand, run }: Pieces, row: E, piece: number): E[] {
    const { p } = this, { at, features, place } = operand, bytes = elementBytes[at.dtype]!;
    // A piece that is not there is the last one again.
    const own = min(add(this.#lane, piece * this.#form.across), features / run - 1);
    const first = mul(own, run);
    if (!this.#form.isGPU) {
      const value = run === 1
        ? operand.element(row, first)
        : load(place, add(operand.index(row, first), lanes(run)));
      return [p.let(value)];
    }
    const chunk = Math.min(run, runOf(at, features, true)), words = chunk * bytes / 4;
    return Array.from({ length: run / chunk }, (_, k) => {
      const index = operand.index(row, add(first, k * chunk));
      if (words < 1) return p.let(operand.element(row, add(first, k)));
      const element = bytes === 4 ? "float32" : "uint32";
      return p.let(loadVector({ ...place, element }, div(index, 4 / bytes), words));
    });
  }

  /** The values of neighbours that were read. */
  #values({ operand, run }: Pieces, read: readonly E[]): E[] {
    const { at: { dtype }, zero } = operand, bytes = elementBytes[dtype]!;
    const centred = (e: E): E => zero === 0 ? e : fadd(e, splat(float(-zero), e.width));
    if (!this.#form.isGPU) {
      const [e] = read as [E];
      return [run === 1 ? e : e.kind === "int" ? centred(toFloat(e)) : e];
    }
    if (run === read.length) return [...read];
    const chunk = run / read.length, perWord = 4 / bytes;
    return read.flatMap((words) =>
      Array.from({ length: chunk }, (_, k) => {
        const word = lane(words, Math.floor(k / perWord));
        return bytes === 4
          ? word
          : centred(unpacked(word, k % perWord, dtype as Parameters<typeof unpacked>[2]));
      })
    );
  }

  keep([query]: readonly [Operand], row0: E): void {
    const { p } = this, { keyRun } = this.#form, pieces = this.#pieces(query, keyRun);
    const last = sub(query.length, 1);
    this.#queries = Array.from({ length: this.rows }, (_, r) => {
      const row = p.let(min(add(row0, r), last));
      return Array.from({ length: pieces.count }, (_, piece) => {
        const isThere = lt(this.#feature(keyRun, piece), query.features);
        return this.#values(pieces, this.#read(pieces, row, piece)).map((value) =>
          p.let(isThere.op === "const" ? value : select(isThere, value, float(0)))
        );
      }).flat();
    });
  }

  #array(size: number): Place {
    return this.p.array(this.#space, size, "float");
  }

  sums(columns: number): Grid {
    const { p, rows } = this, { valueRun, across } = this.#form, width = this.#width(valueRun);
    const count = Math.ceil(columns / valueRun / across), run = valueRun / width;
    const grid: Grid = {
      place: this.#array(rows * count * valueRun),
      rows,
      runs: int(count),
      run,
      width,
      at: (row, piece, k) => add(mul(piece, rows * valueRun), row * valueRun + k),
      column: (piece, k) => add(mul(add(mul(piece, across), this.#lane), valueRun), k),
    };
    for (let row = 0; row < rows; row++) {
      for (let piece = 0; piece < count; piece++) {
        for (let k = 0; k < run; k++) {
          p.store(grid.place, grid.at(row, int(piece), k), splat(float(0), width));
        }
      }
    }
    return grid;
  }

  #scoreGrid(place: Place): Grid {
    return {
      place,
      rows: this.rows,
      runs: int(this.#turns),
      run: 1,
      width: 1,
      together: this.rows === 1 ? this.#form.together ?? 1 : 1,
      at: (row, turn) => add(mul(turn, this.rows), row),
      column: (turn) => add(mul(turn, this.#groups), this.#key),
    };
  }

  join(parts: readonly E[], combine: (a: E, b: E) => E): void {
    const { across: from } = this.#form;
    this.p.join(parts, (a, b) => a.map((part, k) => combine(part, b[k]!)), { from });
  }

  protected get storesNumbers(): E {
    return lt(this.p.item, 1);
  }

  walk({ walked, from, to }: Walk, body: (turn: Turn) => void): void {
    const { p, columns } = this, { keyRun, valueRun, isGPU } = this.#form;
    const [key, value] = walked as [Operand, Operand];
    const keys = this.#pieces(key, keyRun), values = this.#pieces(value, valueRun);
    const scores = this.#scoreGrid(this.#array(this.rows * this.#turns)), last = p.let(sub(to, 1));
    const count = p.let(div(add(sub(to, from), columns - 1), columns));
    p.loop(count, (at) => {
      const first = p.let(add(from, mul(at, columns)));
      const row = (turn: E): E => p.let(min(add(first, scores.column(turn, 0)), last));
      // What a turn reads of memory is on its way before the first of it is needed.
      const readAll = (pieces: Pieces, turn: E): E[][] => {
        const own = row(turn);
        return Array.from({ length: pieces.count }, (_, piece) => this.#read(pieces, own, piece));
      };
      const ahead = [keys, values].map((pieces) =>
        isGPU ? Array.from({ length: this.#turns }, (_, turn) => readAll(pieces, int(turn))) : null
      );
      const read = (which: 0 | 1, turn: E, piece: number): E[] => {
        const pieces = [keys, values][which]!;
        const raw = ahead[which]?.[turn.value]?.[piece];
        return this.#values(pieces, raw ?? this.#read(pieces, row(turn), piece));
      };
      body({
        first,
        number: () => {
          throw new Error("Attention of a few queries has no numbers of columns");
        },
        scores: () => {
          this.#score(scores, keys, (turn, piece) => read(0, turn, piece));
          return [scores];
        },
        add: ([sum]) => this.#add(sum!, values, (turn, piece) => read(1, turn, piece)),
      });
    }, 1);
  }

  #score(grid: Grid, { count }: Pieces, read: (turn: E, piece: number) => E[]): void {
    const { p } = this, { across, isGPU } = this.#form, places: E[] = [], all: E[] = [];
    this.#each((turn) => {
      const key = Array.from({ length: count }, (_, piece) => read(turn, piece)).flat();
      this.#queries.forEach((query, row) => {
        const sum = key.slice(1).reduce(
          (all, x, k) => fma(x, query[k + 1]!, all),
          fmul(key[0]!, query[0]!),
        );
        const own = laneSum(sum), at = grid.at(row, turn, 0);
        if (!isGPU) return p.store(grid.place, at, own);
        all.push(p.register(own));
        places.push(at);
      });
    });
    p.join(all, (a, b) => a.map((sum, k) => fadd(sum, b[k]!)), { to: across });
    all.forEach((sum, k) => p.store(grid.place, places[k]!, sum));
  }

  #add(
    { sums, weights }: WeightedSum,
    { count }: Pieces,
    read: (turn: E, piece: number) => E[],
  ): void {
    const { p } = this, runs = Array.from({ length: sums.run }, (_, k) => k);
    const rows = Array.from({ length: sums.rows }, (_, row) => row);
    for (let piece = 0; piece < count; piece++) {
      const at = (row: number, k: number): E => sums.at(row, int(piece), k);
      const own = rows.map((row) => runs.map((k) => p.register(valueAt(sums, at(row, k)))));
      this.#each((turn) => {
        const value = read(turn, piece);
        for (const row of rows) {
          const weight = p.let(held(weights.place, weights.at(row, turn, 0), "float"));
          for (const k of runs) p.set(own[row]![k]!, fma(value[k]!, weight, own[row]![k]!));
        }
      });
      for (const row of rows) {
        for (const k of runs) p.store(sums.place, at(row, k), own[row]![k]!);
      }
    }
  }

  store(output: Place, sums: Grid, columns: number, stored: StoredRows): void {
    const numbers = this.#scaled(sums, stored);
    if (!this.#form.isGPU) {
      numbers.forEach((row, r) =>
        this.p.when(stored.isThere(int(r)), () => {
          const index = this.p.let(stored.index(int(r)));
          for (const { column, value } of row) {
            storeLanes(this.p, output, add(index, column), value);
          }
        })
      );
      return;
    }
    this.#storeJoined(output, numbers, columns, stored);
  }

  /** The sums of each row with its factor, and their columns. */
  #scaled(sums: Grid, { factor }: StoredRows): { column: E; value: E }[][] {
    return Array.from({ length: sums.rows }, (_, row) => {
      const times = factor(row);
      return Array.from({ length: sums.runs.value * sums.run }, (_, n) => {
        const piece = int(Math.floor(n / sums.run)), k = n % sums.run;
        const sum = valueAt(sums, sums.at(row, piece, k));
        const value = this.p.register(times === null ? sum : fmul(sum, times));
        return { column: sums.column(piece, k), value };
      });
    });
  }

  /** Joins what the work-items that have other keys have of the sums, and stores them. */
  #storeJoined(
    output: Place,
    numbers: readonly (readonly { readonly column: E; readonly value: E }[])[],
    columns: number,
    stored: StoredRows,
  ): void {
    const { p, rows } = this, { across, items } = this.#form;
    const parts = items / WARP, place = p.array("local", parts * rows * columns, "float");
    p.join(
      numbers.flat().map(({ value }) => value),
      (a, b) => a.map((x, k) => fadd(x, b[k]!)),
      { from: across, to: WARP },
    );
    p.when(lt(mod(p.item, WARP), across), () =>
      numbers.forEach((row, r) => {
        const start = mul(add(mul(div(p.item, WARP), rows), r), columns);
        for (const { column, value } of row) {
          p.when(lt(column, columns), () => p.store(place, add(start, column), value));
        }
      }));
    const all = rows * columns;
    p.loop(int(Math.ceil(all / items)), (turn) => {
      const own = p.let(add(mul(turn, items), p.item));
      p.when(lt(own, all), () => {
        const row = p.let(div(own, columns));
        const each = Array.from(
          { length: parts },
          (_, part) => held(place, add(own, part * all), "float"),
        );
        p.when(
          stored.isThere(row),
          () => p.store(output, add(stored.index(row), mod(own, columns)), each.reduce(fadd)),
        );
      });
    }, 1);
  }
}
