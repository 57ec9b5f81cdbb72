/** The WebAssembly that copies an operand into panels: eight columns side by side. */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { KernelArguments } from "../kernel_arguments.ts";
import { i32, v128 } from "../opcodes.ts";
import { TILE_COLUMNS } from "./tile_store.ts";

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

/** Side-by-side axis of an operand: columns, every four of its summed indices, or neither. */
export type PackedAxis = "columns" | "sums" | "nothing";

/** The module that copies panels `begin` to `end`, of all matrices of a batch, side by side. */
export function makePacking(contiguousAxis: PackedAxis): Uint8Array<ArrayBuffer> {
  return new PackingWriter(contiguousAxis).write();
}

class PackingWriter {
  readonly #f = new FunctionBuilder();
  readonly #args = new KernelArguments(this.#f, packArguments);
  readonly #contiguousAxis: PackedAxis;

  constructor(contiguousAxis: PackedAxis) {
    this.#contiguousAxis = contiguousAxis;
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f;
    const { begin, end } = FunctionBuilder.parameters;
    f.loop(begin, end, 1, (task) => this.#panel(task));
    return f.finish();
  }

  #panel(task: Local): void {
    const f = this.#f;
    const column = f.iWith(i32.shl, f.i(i32.remU, task, this.#args.get("panels")), 3);
    const places = this.#places(task, column);
    const gather = (): void => this.#copy(task, (offset) => this.#gathered(places, offset));
    if (this.#contiguousAxis === "sums") return this.#copyTransposed(task, places);
    if (this.#contiguousAxis === "nothing") return gather();
    const last = f.iWith(i32.add, column, TILE_COLUMNS - 1);
    const isWhole = f.i(i32.ltS, last, this.#args.get("n"));
    f.branch(isWhole, () => this.#copy(task, (offset) => this.#loaded(places[0]!, offset)), gather);
  }

  /** Start of each column of a panel; behind the last one that is taken again. */
  #places(task: Local, column: Local): Local[] {
    const f = this.#f;
    const matrix = this.#args.entry("batch", f.i(i32.divU, task, this.#args.get("panels")));
    const from = f.i(i32.add, this.#args.get("from"), matrix);
    const last = f.iWith(i32.sub, this.#args.get("n"), 1);
    return Array.from({ length: TILE_COLUMNS }, (_, k) => {
      const at = f.smaller(f.iWith(i32.add, column, k), last);
      return f.i(i32.add, from, this.#args.entry("columns", at));
    });
  }

  /** Copies a panel; `vectors` are its columns at a summed index. */
  #copy(task: Local, vectors: (offset: Local) => readonly [Local, Local]): void {
    this.#walk(task, (walk) => this.#copyEach(walk, vectors));
  }

  /** Four summed indices at a time, which lie side by side in each column. */
  #copyTransposed(task: Local, places: readonly Local[]): void {
    const f = this.#f;
    this.#walk(task, (walk) => {
      f.whileLess(walk.at, f.iWith(i32.sub, walk.end, 12), () => {
        const offset = f.loadNumber(i32.load, walk.at);
        const [low, high] = [places.slice(0, 4), places.slice(4)].map((four) => {
          return f.transpose(four.map((place) => f.load(v128.load, f.i(i32.add, place, offset))));
        });
        low!.forEach((vector, k) => {
          f.store(v128.store, walk.to, vector, 4 * TILE_COLUMNS * k);
          f.store(v128.store, walk.to, high![k]!, 4 * TILE_COLUMNS * k + 16);
        });
        f.step(walk.to, 16 * TILE_COLUMNS);
        f.step(walk.at, 16);
      }, i32.ltU);
      this.#copyEach(walk, (offset) => this.#gathered(places, offset));
    });
  }

  #walk(task: Local, body: (walk: Walk) => void): void {
    const f = this.#f;
    const panelBytes = f.iWith(i32.shl, this.#args.get("k"), 5);
    const to = f.number(), at = f.number();
    f.assign(to, f.i(i32.add, this.#args.get("to"), f.i(i32.mul, task, panelBytes)));
    f.assign(at, this.#args.get("sums"));
    body({ to, at, end: f.wordAt(at, this.#args.get("k")) });
  }

  /** The summed indices that are left, one at a time. */
  #copyEach(
    { to, at, end }: Walk,
    vectors: (offset: Local) => readonly [Local, Local],
  ): void {
    const f = this.#f;
    f.whileLess(at, end, () => {
      const [low, high] = vectors(f.loadNumber(i32.load, at));
      f.store(v128.store, to, low);
      f.store(v128.store, to, high, 16);
      f.step(to, 4 * TILE_COLUMNS);
      f.step(at, 4);
    }, i32.ltU);
  }

  #loaded(place: Local, offset: Local): [Local, Local] {
    const f = this.#f;
    const at = f.i(i32.add, place, offset);
    return [f.load(v128.load, at), f.load(v128.load, at, 16)];
  }

  #gathered(places: readonly Local[], offset: Local): [Local, Local] {
    const f = this.#f;
    const [low, high] = [places.slice(0, 4), places.slice(4)].map((four) =>
      f.gather(four.map((place) => f.i(i32.add, place, offset)))
    );
    return [low!, high!];
  }
}

/** Places in the panel written, and in the table of summed indices. */
interface Walk {
  readonly to: Local;
  readonly at: Local;
  readonly end: Local;
}
