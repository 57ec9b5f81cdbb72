/**
 * Statements of tile programs as WebAssembly, with a few instructions for each. A work-item has a group alone;
 * scalars of floats are vectors whose lanes are equal.
 *
 * This folder (`tile/`) imports the programs of `backend/tile`, `kernel/`, `blas/`, `script/`, `loops/`
 * and the assembler of `wasm/`. Attention and contractions with packed weights come from `kernel_runners.ts`.
 */
import type { DType } from "../../../graph/dtype.ts";
import {
  type E,
  int,
  type Place,
  sub,
  withExpressions,
} from "../../../tile/language/expression.ts";
import {
  type Fill,
  type Pack,
  PANEL_ROWS,
  type Statement,
  type Sums,
  type Terms,
  type TileKernel,
  type Transpose,
} from "../../../tile/language/statements.ts";
import { splitVectors } from "../../../tile/passes/splitting.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { i32, v128 } from "../opcodes.ts";
import type { EngineFeatures } from "../runtime.ts";
import { BlockWriter } from "./block_writer.ts";
import { PanelWriter, type TermSteps } from "./panel_writer.ts";
import { isShorts } from "./short_lanes.ts";
import { isNumber } from "./tile_operations.ts";
import { elementBytes, TileValues } from "./tile_values.ts";

/**
 * Stores a result, whose coordinates are numbers: of a value the first lane, or all of a vector.
 *
 * @param known Those coordinates that are constants; null for others.
 */
export type StoreResult = (
  f: FunctionBuilder,
  at: readonly Local[],
  value: Local,
  known: readonly (number | null)[],
) => void;

/** The names of a kernel's arguments in their order: addresses of its inputs, then `others`, then sizes. */
export function argumentNames({ inputs, sizes }: TileKernel, others: readonly string[]): string[] {
  return [...inputs.map(({ name }) => name), ...others, ...sizes.map(({ name }) => name)];
}

/**
 * The module of a kernel; it runs a range of groups.
 *
 * @param others Arguments that only `store` reads, by {@linkcode TileModule.argument}.
 * @param features What the engine has.
 */
export function tileModule(
  kernel: TileKernel,
  others: readonly string[],
  store: (argument: (name: string) => Local) => StoreResult,
  features: EngineFeatures,
): Uint8Array<ArrayBuffer> {
  return new TileModule(kernel, argumentNames(kernel, others), store, features).write();
}

/** Floats of a vector. */
const LANES = 4;

/** The body of a statement that runs where what `s` names does not hold. */
const otherwise = (s: Statement, next?: Statement): readonly Statement[] | undefined =>
  s.s === "if" && s.condition.op === "var" && next?.s === "if" && next.condition.op === "not" &&
    next.condition.args[0] === s.condition
    ? next.body
    : undefined;

class TileModule {
  readonly #f = new FunctionBuilder();
  readonly #values: TileValues;
  readonly #blocks: BlockWriter;
  readonly #kernel: TileKernel;
  readonly #store: StoreResult;
  readonly #hasPrivatePage: boolean;
  #needsPage = false;

  constructor(
    kernel: TileKernel,
    names: readonly string[],
    store: (argument: (name: string) => Local) => StoreResult,
    { relaxed, hasPrivatePages }: EngineFeatures,
  ) {
    this.#hasPrivatePage = hasPrivatePages;
    this.#kernel = kernel;
    this.#values = new TileValues(this.#f, kernel, names, relaxed);
    this.#blocks = new BlockWriter(this.#f);
    this.#store = store((name) => this.#values.argument(name));
  }

  write(): Uint8Array<ArrayBuffer> {
    const f = this.#f, { begin, end } = FunctionBuilder.parameters;
    this.#values.placeScratch();
    f.loop(begin, end, 1, (group) => {
      this.#values.set("group", group);
      withExpressions(() => this.#block(splitVectors(this.#kernel.body, LANES)));
    });
    return f.finish(this.#needsPage);
  }

  #block(body: readonly Statement[]): void {
    this.#values.block(body, () => {
      for (let k = 0; k < body.length; k++) {
        const s = body[k]!, other = otherwise(s, body[k + 1]);
        this.#statement(s, other);
        if (other !== undefined) k++;
      }
    });
  }

  #statement(s: Statement, otherwise?: readonly Statement[]): void {
    const f = this.#f;
    switch (s.s) {
      case "let":
        return this.#values.name(s.to, s.value);
      case "set":
        return f.assign(this.#values.register(s.to.name), this.#values.value(s.value));
      case "transpose":
        return this.#transpose(s);
      case "fill":
        return this.#fill(s);
      case "sums":
        return this.#sums(s);
      case "store":
        return this.#put(s);
      case "pack":
        return this.#pack(s);
      case "reload":
        return;
      case "result":
        return this.#store(
          f,
          s.at.map((e) => this.#values.value(e)),
          this.#values.value(s.value),
          s.at.map((e) => e.op === "const" ? e.value : null),
        );
      case "for": {
        const count = this.#values.value(s.count);
        this.#values.placeBefore(s.body);
        return f.loop(f.integer(0), count, 1, (at) => {
          this.#values.set(s.at.name, at);
          this.#block(s.body);
        });
      }
      case "if":
        return f.branch(
          this.#values.flag(s.condition),
          () => this.#block(s.body),
          otherwise && (() => this.#block(otherwise)),
        );
      default:
        throw new Error(`A work-item alone has no ${s.s}`);
    }
  }

  #put({ place, index, value }: Extract<Statement, { s: "store" }>): void {
    const f = this.#f,
      held = this.#values.value(value),
      [address, offset] = this.#values.address(place, index);
    const dtype = place.element as DType, bytes = elementBytes[dtype]!;
    if (isShorts(value) && value.width === 8) f.store(v128.store, address, held, offset);
    else if (isShorts(value)) {
      f.store(value.width === 2 ? v128.store32Lane : v128.store64Lane, address, held, offset, 0);
    } else if (value.width > 1) this.#values.lanes.storeFour(dtype, bytes, address, offset, held);
    else if (bytes === 4) f.store(v128.store32Lane, address, held, offset, 0);
    else this.#values.lanes.storeEach(dtype, bytes, [f.iWith(i32.add, address, offset)], held);
  }

  /** The writer of a panel: those of a work-item are in the private page, where there is one. */
  #panelAt(panel: Place, index: E): PanelWriter {
    const isPrivate = panel.space !== "global" && this.#hasPrivatePage;
    this.#needsPage ||= isPrivate;
    return new PanelWriter(
      this.#f,
      this.#values.math,
      isPrivate ? null : this.#values.at(panel, index),
    );
  }

  #terms(terms: Terms): TermSteps {
    if ("table" in terms) return { table: this.#values.at(terms.table, terms.at) };
    const f = this.#f, { step } = terms;
    if (step.op === "const") return { step: this.#values.bytesOf(step, 4) };
    // Four times a step, by what engines do not join with an addition: one that shifts, too, takes a sixth more time.
    const bytes = (): Local => f.iWith(i32.and, f.iWith(i32.rotl, this.#values.value(step), 2), -4);
    const isArgument = step.op === "var" && this.#values.isArgument(step.name);
    return { step: isArgument ? f.once(`bytes of ${step.name}`, bytes) : bytes() };
  }

  #fill({ panel, index, from, rows, terms, count }: Fill): void {
    const apart = (r: number): E => sub(rows[r]!, rows[0]!);
    const areSideBySide = rows.every((_, r) => isNumber(apart(r), r));
    const hasStep = (step: number): boolean => "step" in terms && isNumber(terms.step, step);
    this.#panelAt(panel, index).fill({
      rows: rows.map((row) => this.#values.at(from, row)),
      areSideBySide,
      terms: this.#terms(terms),
      areInFours: hasStep(1) || "table" in terms && terms.areInFours === true,
      isPanel: areSideBySide && hasStep(PANEL_ROWS),
      count: this.#values.value(count),
    });
  }

  #sums({ to, panel, right, at, terms, count, unrolled }: Sums): void {
    const sums = to.map((row) => row.map((sum) => this.#values.value(sum)));
    const columns = { at: this.#values.at(right, at), terms: this.#terms(terms) };
    this.#panelAt(panel, int(0)).multiply(sums, columns, this.#values.value(count), unrolled);
  }

  #transpose({ from, at, step, to, index, pitch, there }: Transpose): void {
    if (there) throw new Error("WebAssembly transposes whole squares");
    const [rowBytes, columnBytes] = [step, pitch].map((e) => this.#values.bytesOf(e, 4));
    const [source, target] = [this.#values.at(from, at), this.#values.at(to, index)];
    const apart = { rowBytes: rowBytes!, columnBytes: columnBytes! };
    this.#blocks.transpose({ from: source, to: target, ...apart });
  }

  /** A row that may be outside of an image is packed by code of its own for each case: ends are constants then. */
  #pack(s: Pack): void {
    if (s.high.op !== "?") return this.#packRow(s);
    const [condition, inside, outside] = s.high.args;
    const packed = (high: E) => (): void => this.#values.scope(() => this.#packRow({ ...s, high }));
    this.#f.branch(this.#values.value(condition!), packed(inside!), packed(outside!));
  }

  /** A number from `least` to `most`. */
  #within(e: E, least: number, most: number): Local {
    const f = this.#f;
    if (e.op === "const") return f.integer(Math.max(least, Math.min(e.value, most)));
    return f.larger(f.smaller(this.#values.value(e), f.integer(most)), f.integer(least));
  }

  #packRow({ place, index, from, at, count, parts, apart, low, high }: Pack): void {
    const isPlain = isNumber(apart, 1);
    if (parts > 2 || !isPlain) throw new Error("WebAssembly packs neighbours in one or two parts");
    const f = this.#f,
      to = this.#values.at(place, index),
      first = this.#within(low, 0, count * parts);
    const end = high === low ? first : f.larger(this.#within(high, 0, count * parts), first);
    const source = f.i(i32.add, this.#values.at(from, at), f.iWith(i32.shl, first, 2));
    this.#blocks.pack({ to, source, first, end, count, parts });
  }
}
