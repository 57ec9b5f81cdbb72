/**
 * The WebAssembly of contractions: tiles of 6 by 8 sums in registers. An element of the left operand
 * lies at the sum of two offsets that tables give, one for its row and one for its summed index, so
 * windows of images are read where they are. Of the right operand eight columns lie side by side.
 */
import { f32x4, FunctionBuilder, i32, type Local, v128 } from "./assembler.ts";
import { VectorMath } from "./math.ts";

/** Rows of a tile; with two vectors a row this fills the registers that there are. */
export const TILE_ROWS = 6;
/** Columns of a tile: two vectors. */
export const TILE_COLUMNS = 8;

/** The arguments of a product, in order; tables and offsets are in bytes. */
export const productArguments = [
  "a",
  "b",
  "c",
  /** Tables: an offset for each row of a, each summed index of a, each panel of b. */
  "aRows",
  "aSums",
  "bPanels",
  /** From one summed index to the next within a panel. */
  "bStep",
  /** Tables: an offset for each row and each column of c. */
  "cRows",
  "cColumns",
  "m",
  "n",
  "k",
  /** Rows and panels of a block, and how many blocks there are of each. */
  "blockRows",
  "blockPanels",
  "rowBlocks",
  "panelBlocks",
  /** How many summed indices are done at a time. */
  "blockSums",
  /** Tables: where each product of a batch begins in a, b and c. */
  "aBatch",
  "bBatch",
  "cBatch",
] as const;

type Argument = typeof productArguments[number];

/** How the left operand is read, and the result written. */
export interface TileForm {
  /** The left operand's summed indices lie side by side. */
  readonly sumsAdjoin: boolean;
  /** What lies side by side in the result: the columns, the rows of each tile, or neither. */
  readonly adjoining: "columns" | "rows" | "nothing";
  /** Rows of the last tile, 0 where that is whole. */
  readonly rest: number;
  readonly relaxed: boolean;
}

/** The module that computes blocks `begin` to `end` of a batch of products. */
export function makeProduct(form: TileForm): Uint8Array<ArrayBuffer> {
  return new ProductWriter(form).write();
}

class ProductWriter {
  readonly #f = new FunctionBuilder();
  readonly #math: VectorMath;
  readonly #form: TileForm;

  constructor(form: TileForm) {
    this.#form = form;
    this.#math = new VectorMath(this.#f, form.relaxed);
  }

  #arg(name: Argument): Local {
    const offset = 4 * productArguments.indexOf(name);
    return this.#f.once(
      name,
      () => this.#f.loadNumber(i32.load, FunctionBuilder.parameters.args, offset),
    );
  }

  /** An entry of a table of offsets. */
  #entry(table: Local, index: Local): Local {
    const f = this.#f;
    return f.loadNumber(i32.load, f.i(i32.add, table, f.iWith(i32.shl, index, 2)));
  }

  #smaller(a: Local, b: Local): Local {
    return this.#f.choose(this.#f.i(i32.ltS, a, b), a, b);
  }

  /** A loop from `start` to `end`, `step` at a time; gives back where it ended. */
  #loop(start: Local, end: Local, step: number, body: (index: Local) => void): Local {
    const f = this.#f;
    const index = f.number();
    f.assign(index, start);
    f.while(() => {
      f.get(index);
      f.get(end);
      f.put(i32.ltS);
    }, () => {
      body(index);
      f.step(index, step);
    });
    return index;
  }

  write(): Uint8Array<ArrayBuffer> {
    const { begin, end } = FunctionBuilder.parameters;
    this.#loop(begin, end, 1, (task) => this.#block(task));
    return this.#f.finish();
  }

  #block(task: Local): void {
    const f = this.#f;
    const panelBlock = f.i(i32.remU, task, this.#arg("panelBlocks"));
    const rest = f.i(i32.divU, task, this.#arg("panelBlocks"));
    const rowBlock = f.i(i32.remU, rest, this.#arg("rowBlocks"));
    const batch = f.i(i32.divU, rest, this.#arg("rowBlocks"));
    const base = (name: "a" | "b" | "c"): Local =>
      f.i(i32.add, this.#arg(name), this.#entry(this.#arg(`${name}Batch`), batch));
    const [a, b, c] = [base("a"), base("b"), base("c")];
    const row = f.i(i32.mul, rowBlock, this.#arg("blockRows"));
    const rowEnd = this.#smaller(f.i(i32.add, row, this.#arg("blockRows")), this.#arg("m"));
    const panel = f.i(i32.mul, panelBlock, this.#arg("blockPanels"));
    const panels = f.iWith(i32.shrU, f.iWith(i32.add, this.#arg("n"), TILE_COLUMNS - 1), 3);
    const panelEnd = this.#smaller(f.i(i32.add, panel, this.#arg("blockPanels")), panels);
    const sum = f.number();
    f.assign(sum, f.integer(0));
    f.while(() => {
      f.get(sum);
      f.get(this.#arg("k"));
      f.put(i32.ltS);
    }, () => {
      const sumEnd = this.#smaller(f.i(i32.add, sum, this.#arg("blockSums")), this.#arg("k"));
      const skipped = f.i(i32.mul, sum, this.#arg("bStep"));
      this.#loop(panel, panelEnd, 1, (p) => {
        const right = f.i(i32.add, f.i(i32.add, b, this.#entry(this.#arg("bPanels"), p)), skipped);
        this.#rows(a, c, row, rowEnd, p, right, sum, sumEnd);
      });
      f.assign(sum, sumEnd);
    });
  }

  #rows(
    a: Local,
    c: Local,
    row: Local,
    rowEnd: Local,
    panel: Local,
    right: Local,
    sum: Local,
    sumEnd: Local,
  ): void {
    const f = this.#f;
    const tile = (i: Local, rows: number): void =>
      this.#store(c, i, panel, sum, this.#sums(a, i, rows, right, sum, sumEnd));
    const last = f.iWith(i32.sub, rowEnd, TILE_ROWS - 1);
    const i = this.#loop(row, last, TILE_ROWS, (i) => tile(i, TILE_ROWS));
    const { rest } = this.#form;
    if (rest > 0) f.branch(f.i(i32.ltS, i, rowEnd), () => tile(i, rest));
  }

  #sums(
    a: Local,
    i: Local,
    count: number,
    right: Local,
    sum: Local,
    sumEnd: Local,
  ): Local[][] {
    const f = this.#f;
    const { sumsAdjoin } = this.#form;
    const zero = f.splat(0);
    const table = f.i(i32.add, this.#arg("aRows"), f.iWith(i32.shl, i, 2));
    const rows = Array.from({ length: count }, (_, r) => {
      const place = f.number();
      f.assign(place, f.i(i32.add, a, f.loadNumber(i32.load, table, 4 * r)));
      if (sumsAdjoin) f.assign(place, f.i(i32.add, place, f.iWith(i32.shl, sum, 2)));
      return place;
    });
    const sums = rows.map(() =>
      [0, 1].map(() => {
        const local = f.vector();
        f.assign(local, zero);
        return local;
      })
    );
    const b = f.number(), at = f.number();
    f.assign(b, right);
    f.assign(at, f.i(i32.add, this.#arg("aSums"), f.iWith(i32.shl, sum, 2)));
    const end = f.i(i32.add, this.#arg("aSums"), f.iWith(i32.shl, sumEnd, 2));
    const once = (step: number): void => {
      const columns = [f.load(v128.load, b), f.load(v128.load, b, 16)];
      f.assign(b, f.i(i32.add, b, this.#arg("bStep")));
      const offset = sumsAdjoin ? null : f.loadNumber(i32.load, at, 4 * step);
      rows.forEach((place, r) => {
        const x = offset === null
          ? f.load(v128.loadSplat, place, 4 * step)
          : f.load(v128.loadSplat, f.i(i32.add, place, offset));
        columns.forEach((y, h) => {
          f.assign(sums[r]![h]!, this.#math.madd(x, y, sums[r]![h]!));
        });
      });
    };
    for (const steps of [4, 1]) {
      const last = steps === 1 ? end : f.iWith(i32.sub, end, 4 * (steps - 1));
      f.while(() => {
        f.get(at);
        f.get(last);
        f.put(i32.ltU);
      }, () => {
        for (let step = 0; step < steps; step++) once(step);
        f.step(at, 4 * steps);
        if (sumsAdjoin) { for (const place of rows) f.step(place, 4 * steps); }
      });
    }
    return sums;
  }

  /** Writes the part of a tile that there is; from the second summed block on it adds. */
  #store(c: Local, i: Local, panel: Local, sum: Local, sums: Local[][]): void {
    const f = this.#f;
    const column = f.iWith(i32.shl, panel, 3);
    const left = f.i(i32.sub, this.#arg("n"), column);
    const isWhole = f.i(i32.ltS, f.integer(TILE_COLUMNS - 1), left);
    // Most tiles are whole, and written once: no other test is made for those.
    const isPlain = f.i(i32.and, isWhole, f.i(i32.eqz, sum));
    const target = { c, i, column };
    f.branch(
      isPlain,
      () => this.#storeTile(target, sums, null, null),
      () => this.#storeTile(target, sums, sum, left),
    );
  }

  /** `left`: columns that there are, null where that is all; `sum`: null where nothing is added. */
  #storeTile(target: Target, sums: Local[][], sum: Local | null, left: Local | null): void {
    const f = this.#f;
    const rows = f.i(i32.add, this.#arg("cRows"), f.iWith(i32.shl, target.i, 2));
    const table = f.i(i32.add, this.#arg("cColumns"), f.iWith(i32.shl, target.column, 2));
    const place = (r: number): Local => f.i(i32.add, target.c, f.loadNumber(i32.load, rows, 4 * r));
    if (this.#form.adjoining === "rows") {
      return this.#storeColumns(place(0), table, left, sum, sums);
    }
    sums.forEach((row, r) => {
      const at = place(r);
      if (this.#form.adjoining === "nothing" || left !== null) {
        return this.#storeEach(at, table, left, sum, row);
      }
      const first = f.i(i32.add, at, f.loadNumber(i32.load, table));
      row.forEach((value, h) => this.#put(4, first, 16 * h, sum, value, 0));
    });
  }

  #whereColumn(k: number, left: Local | null, body: () => void): void {
    if (left === null) body();
    else this.#f.branch(this.#f.i(i32.ltS, this.#f.integer(k), left), body);
  }

  /** The tile's columns, one after the other: its rows turned by shuffles. */
  #storeColumns(
    place: Local,
    table: Local,
    left: Local | null,
    sum: Local | null,
    sums: Local[][],
  ): void {
    const f = this.#f;
    const columns: ((at: Local) => void)[][] = Array.from({ length: TILE_COLUMNS }, () => []);
    for (let r = 0; r < sums.length;) {
      const count = sums.length - r >= 4 ? 4 : sums.length - r >= 2 ? 2 : 1;
      for (const h of [0, 1]) {
        const rows = sums.slice(r, r + count).map((row) => row[h]!);
        const offset = 4 * r;
        this.#turned(rows).forEach(({ vector, lane }, k) => {
          columns[4 * h + k]!.push((at) => this.#put(count, at, offset, sum, vector, lane));
        });
      }
      r += count;
    }
    columns.forEach((parts, k) => {
      this.#whereColumn(k, left, () => {
        const at = f.i(i32.add, place, f.loadNumber(i32.load, table, 4 * k));
        for (const part of parts) part(at);
      });
    });
  }

  /** The four columns of one, two or four rows: where each begins in which vector. */
  #turned(rows: readonly Local[]): { vector: Local; lane: number }[] {
    const f = this.#f;
    const [a, b, c, d] = rows as [Local, Local, Local, Local];
    if (rows.length === 1) return [0, 1, 2, 3].map((lane) => ({ vector: a, lane }));
    const low = f.shuffle32(a, b, [0, 4, 1, 5]), high = f.shuffle32(a, b, [2, 6, 3, 7]);
    if (rows.length === 2) {
      return [low, high].flatMap((vector) => [0, 1].map((lane) => ({ vector, lane })));
    }
    const low2 = f.shuffle32(c, d, [0, 4, 1, 5]), high2 = f.shuffle32(c, d, [2, 6, 3, 7]);
    return [[low, low2], [high, high2]].flatMap(([x, y]) =>
      [[0, 1, 4, 5], [2, 3, 6, 7]].map((lanes) => ({
        vector: f.shuffle32(x!, y!, lanes),
        lane: 0,
      }))
    );
  }

  /** Stores one, two or four floats, or adds them to what is there. */
  #put(
    count: 1 | 2 | 4,
    at: Local,
    offset: number,
    sum: Local | null,
    value: Local,
    lane: number,
  ): void {
    const f = this.#f;
    const [load, store] = count === 4
      ? [v128.load, v128.store]
      : count === 2
      ? [v128.load64Splat, v128.store64Lane]
      : [v128.loadSplat, v128.store32Lane];
    const write = (vector: Local): void =>
      f.store(store, at, vector, offset, count === 4 ? undefined : lane);
    if (sum === null) return write(value);
    f.branch(
      sum,
      () => write(f.v(f32x4.add, value, f.load(load, at, offset))),
      () => write(value),
    );
  }

  #storeEach(
    place: Local,
    table: Local,
    left: Local | null,
    sum: Local | null,
    row: readonly Local[],
  ): void {
    const f = this.#f;
    row.forEach((value, h) => {
      for (let lane = 0; lane < 4; lane++) {
        const k = 4 * h + lane;
        this.#whereColumn(k, left, () => {
          const at = f.i(i32.add, place, f.loadNumber(i32.load, table, 4 * k));
          this.#put(1, at, 0, sum, value, lane);
        });
      }
    });
  }
}

/** Where a tile goes: the result, its first row and column. */
interface Target {
  readonly c: Local;
  readonly i: Local;
  readonly column: Local;
}

/** The arguments of a packing. */
export const packArguments = [
  "from",
  "to",
  /** Tables: an offset for each column and each summed index, and for each matrix of a batch. */
  "columns",
  "sums",
  "batch",
  "n",
  "k",
  "panels",
] as const;

/** The module that copies panels `begin` to `end`, of all matrices of a batch, side by side. */
export function makePacking(columnsAdjoin: boolean): Uint8Array<ArrayBuffer> {
  const f = new FunctionBuilder();
  const { args, begin, end } = FunctionBuilder.parameters;
  const arg = (name: typeof packArguments[number]): Local =>
    f.once(name, () => f.loadNumber(i32.load, args, 4 * packArguments.indexOf(name)));
  const entry = (table: Local, index: Local): Local =>
    f.loadNumber(i32.load, f.i(i32.add, table, f.iWith(i32.shl, index, 2)));
  const task = f.number();
  f.assign(task, begin);
  f.while(() => {
    f.get(task);
    f.get(end);
    f.put(i32.ltS);
  }, () => {
    const column = f.iWith(i32.shl, f.i(i32.remU, task, arg("panels")), 3);
    const matrix = entry(arg("batch"), f.i(i32.divU, task, arg("panels")));
    const from = f.i(i32.add, arg("from"), matrix);
    const last = f.iWith(i32.sub, arg("n"), 1);
    const places = Array.from({ length: TILE_COLUMNS }, (_, k) => {
      const at = f.iWith(i32.add, column, k);
      return f.i(
        i32.add,
        from,
        entry(arg("columns"), f.choose(f.i(i32.ltS, at, last), at, last)),
      );
    });
    const isWhole = f.i(i32.ltS, f.iWith(i32.add, column, TILE_COLUMNS - 1), arg("n"));
    const panelBytes = f.iWith(i32.shl, arg("k"), 5);
    const to = f.number(), at = f.number();
    const copyPanel = (vectors: (offset: Local) => readonly [Local, Local]): void => {
      f.assign(to, f.i(i32.add, arg("to"), f.i(i32.mul, task, panelBytes)));
      f.assign(at, arg("sums"));
      const stop = f.i(i32.add, at, f.iWith(i32.shl, arg("k"), 2));
      f.while(() => {
        f.get(at);
        f.get(stop);
        f.put(i32.ltU);
      }, () => {
        const [low, high] = vectors(f.loadNumber(i32.load, at));
        f.store(v128.store, to, low);
        f.store(v128.store, to, high, 16);
        f.step(to, 4 * TILE_COLUMNS);
        f.step(at, 4);
      });
    };
    const gather = (offset: Local): readonly [Local, Local] => {
      const half = (h: number): Local =>
        [1, 2, 3].reduce(
          (vector, lane) =>
            f.loadLane(
              v128.load32Lane,
              f.i(i32.add, places[4 * h + lane]!, offset),
              vector,
              lane,
            ),
          f.load(v128.load32Zero, f.i(i32.add, places[4 * h]!, offset)),
        );
      return [half(0), half(1)];
    };
    const side = (offset: Local): readonly [Local, Local] => {
      const place = f.i(i32.add, places[0]!, offset);
      return [f.load(v128.load, place), f.load(v128.load, place, 16)];
    };
    if (columnsAdjoin) f.branch(isWhole, () => copyPanel(side), () => copyPanel(gather));
    else copyPanel(gather);
    f.step(task, 1);
  });
  return f.finish();
}
