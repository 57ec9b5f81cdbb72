/**
 * The statements of a work-item: the level that is checked and rendered. All work-items of a group run the
 * same ones; a kernel's digest is theirs.
 */
import type { MatrixUnits } from "../../kernel/target.ts";
import { type E, type Element, isLocal, kept, type Kind, type Place } from "./expression.ts";

/** A statement. */
export type Statement =
  /** A name for a value that several statements need. */
  | { readonly s: "let"; readonly to: E; readonly value: E }
  | { readonly s: "set"; readonly to: E; readonly value: E }
  | Store
  /** A value that is computed, by its coordinates: what becomes of it the kernel around it says. */
  | { readonly s: "result"; readonly at: readonly E[]; readonly value: E }
  | For
  | { readonly s: "if"; readonly condition: E; readonly body: readonly Statement[] }
  /** Work-items of a group wait for each other. */
  | { readonly s: "barrier" }
  /** The value of the work-item whose number differs in the bits of `mask`. */
  | { readonly s: "shuffle"; readonly to: E; readonly from: E; readonly mask: number }
  | Copy
  /** Makes a group of what was copied since the last one. */
  | { readonly s: "commit" }
  /** Until all but so many of a work-item's groups are there; others see them behind a barrier. */
  | { readonly s: "wait"; readonly left: number; readonly place: Place }
  /** Stores four words at a byte of a ring, in a stage that nobody reads before the next wait. */
  | { readonly s: "put"; readonly place: Place; readonly index: E; readonly words: readonly E[] }
  | Pack
  /** Asks for a line of a cache that is read soon. */
  | { readonly s: "prefetch"; readonly from: Place; readonly at: E }
  /** A result will be given at these coordinates: the kernel around may ask for what it needs there. */
  | { readonly s: "expect"; readonly at: readonly E[] }
  /** Compilers keep no number of memory in a register beyond it. */
  | { readonly s: "reload" }
  | Transpose
  | Fill
  | Sums
  | Matrices
  | Multiply
  | Warpgroup
  /** Lets products of warpgroups see what work-items have written to a ring, by copies too. */
  | { readonly s: "fence" }
  /** A float becomes a number of TF32; what is left of it another one. */
  | { readonly s: "round"; readonly at: Fragment; readonly rest: Fragment | null };

/** Copies neighbours to a byte of a ring, `count` of its 4 or 16 bytes, while the work-item goes on; others are 0. */
export interface Copy {
  readonly s: "copy";
  readonly place: Place;
  readonly index: E;
  readonly from: Place;
  readonly at: E;
  readonly bytes: number;
  readonly count: E;
}

/**
 * Copies a row of floats to local memory: elements from `low` to before `high`, zeros around. It has `parts` of
 * `count` elements one behind the other; element `q` of part `p` is that of place `q * parts + p`, and places are
 * `apart` in memory.
 */
export interface Pack {
  readonly s: "pack";
  readonly place: Place;
  readonly index: E;
  readonly from: Place;
  readonly at: E;
  readonly count: number;
  readonly parts: number;
  readonly apart: E;
  readonly low: E;
  readonly high: E;
}

/** Moves a square of 16 by 16 floats, whose rows become columns; rows are so far apart. */
export interface Transpose {
  readonly s: "transpose";
  readonly from: Place;
  readonly at: E;
  readonly step: E;
  readonly to: Place;
  readonly index: E;
  readonly pitch: E;
  /** The rows and columns that there are, where these may be fewer: rows behind the last one repeat it. */
  readonly there?: { readonly rows: E; readonly columns: E };
}

/** Steps from term to term: equal ones, or a table of where they lie, from an element of it on. */
export type Terms =
  | { readonly step: E }
  | {
    readonly table: Place;
    readonly at: E;
    /** Every four of them lie side by side, and so do those that are left. */
    readonly areInFours?: boolean;
  };

/** Places that each term of a panel has, one a row. */
export const PANEL_ROWS = 8;

/** Copies terms of up to eight rows to a panel: element `index + 8 * k + r` is term `k` of row `r`. */
export interface Fill {
  readonly s: "fill";
  readonly panel: Place;
  readonly index: E;
  readonly from: Place;
  /** Beginnings of rows, from which terms lie as `terms` says. */
  readonly rows: readonly E[];
  readonly terms: Terms;
  readonly count: E;
}

/**
 * Adds products to registers: those of the rows of a panel, from its first element on, with vectors of the right
 * operand, which lie side by side in each term.
 */
export interface Sums {
  readonly s: "sums";
  /** Vectors of each row. */
  readonly to: readonly (readonly E[])[];
  readonly panel: Place;
  readonly right: Place;
  readonly at: E;
  readonly terms: Terms;
  readonly count: E;
  /** Terms that have code of their own, where there may be so many. */
  readonly unrolled: number;
}

/** Registers of a work-item, from one of a private array on. */
export interface Fragment {
  readonly place: Place;
  readonly index: E;
}

/**
 * Reads words of a ring. By itself a work-item reads 1, 2 or 4 that lie side by side. A warp reads four matrices of
 * 8 rows of 16 bytes: its work-items name the rows, 8 of each matrix in turn, and get a word of each, of row
 * `lane / 4`, or of column.
 */
export interface Matrices {
  readonly s: "matrices";
  readonly to: readonly Fragment[];
  readonly place: Place;
  readonly index: E;
  readonly how: "alone" | "rows" | "columns";
}

/** Name of a unit that multiplies fragments: {@linkcode MatrixUnits}, and what is multiplied. */
export type MatrixUnitName = `${MatrixUnits}_${"f16" | "bf16"}` | "mma_tf32";

/** Adds the product of two fragments of a warp to its sums. */
export interface Multiply {
  readonly s: "multiply";
  readonly unit: MatrixUnitName;
  readonly sums: Fragment;
  readonly left: Fragment;
  readonly right: Fragment;
}

/** A product of four warps: 64 rows, columns and terms. */
export interface WarpgroupProduct {
  readonly sums: Fragment;
  /** A tile of rows in a ring, by its byte; or four words of each 16 terms in registers. */
  readonly left: E | Fragment;
  /** A tile in a ring, by its byte: of rows, or where the left operand is in registers of terms. */
  readonly right: E;
}

/**
 * Products of 64 rows and columns by four warps, one or two at once: sums begin with 0 where the left operand is a
 * tile, and are added to where it is in registers. Rows of tiles have 128 bytes, whose sixteens are swizzled.
 */
export interface Warpgroup {
  readonly s: "warpgroup";
  readonly dtype: "float16" | "bfloat16";
  readonly place: Place;
  readonly products: readonly WarpgroupProduct[];
}

/** Stores an element, or a vector of neighbours from an index on. */
export interface Store {
  readonly s: "store";
  readonly place: Place;
  readonly index: E;
  readonly value: E;
  /** It does not stay in the caches. */
  readonly streams?: boolean;
}

/** Runs statements for the numbers from 0 to before `count`. */
export interface For {
  readonly s: "for";
  readonly at: E;
  readonly count: E;
  readonly body: readonly Statement[];
  /** Turns that are written one after the other; all of them where it is infinite. */
  readonly unroll?: number;
}

/** Numbers that work-items have in memory of their own, or of their group. */
export interface TileArray {
  readonly space: "local" | "ring" | "private";
  readonly name: string;
  /** Numbers; bytes of a ring. */
  readonly size: number;
  readonly kind: Kind;
}

/** True for registers; the other operand of the union is an expression. */
export const isFragment = (a: E | Fragment): a is Fragment => !("op" in a);

/** A number that a launch hands over. */
export interface SizeArgument {
  readonly name: string;
  readonly value: number;
}

/** A kernel in statements. */
export interface TileKernel {
  readonly name: string;
  /** The buffers that it reads, by name. */
  readonly inputs: readonly { readonly name: string; readonly element: Element }[];
  readonly sizes: readonly SizeArgument[];
  readonly arrays: readonly TileArray[];
  readonly groups: number;
  /** Work-items of a group. */
  readonly items: number;
  readonly body: readonly Statement[];
}

/** The expressions of a statement, without those of statements inside. */
export const expressionsOf: (s: Statement) => readonly E[] = kept("expressions", (s: Statement) => {
  const all: E[] = [];
  mapStatement(s, (e) => (all.push(e), e), (body) => body);
  return all;
});

const termsOf = (terms: Terms, expression: (e: E) => E): Terms =>
  "step" in terms ? { step: expression(terms.step) } : { ...terms, at: expression(terms.at) };

/** A statement with its expressions, and the statements inside, replaced. */
export function mapStatement(
  s: Statement,
  expression: (e: E) => E,
  body: (all: readonly Statement[]) => readonly Statement[],
): Statement {
  const fragment = (f: Fragment): Fragment => ({ ...f, index: expression(f.index) });
  switch (s.s) {
    case "let":
    case "set":
      return { ...s, value: expression(s.value) };
    case "store":
      return { ...s, index: expression(s.index), value: expression(s.value) };
    case "result":
      return { ...s, at: s.at.map(expression), value: expression(s.value) };
    case "for":
      return { ...s, count: expression(s.count), body: body(s.body) };
    case "if":
      return { ...s, condition: expression(s.condition), body: body(s.body) };
    case "shuffle":
      return { ...s, from: expression(s.from) };
    case "copy":
      return {
        ...s,
        index: expression(s.index),
        at: expression(s.at),
        count: expression(s.count),
      };
    case "transpose":
      return {
        ...s,
        at: expression(s.at),
        step: expression(s.step),
        index: expression(s.index),
        pitch: expression(s.pitch),
        ...s.there && {
          there: { rows: expression(s.there.rows), columns: expression(s.there.columns) },
        },
      };
    case "fill":
      return {
        ...{ ...s, index: expression(s.index), rows: s.rows.map(expression) },
        ...{ terms: termsOf(s.terms, expression), count: expression(s.count) },
      };
    case "sums":
      return {
        ...{ ...s, at: expression(s.at), count: expression(s.count) },
        terms: termsOf(s.terms, expression),
      };
    case "pack":
      return {
        ...s,
        index: expression(s.index),
        at: expression(s.at),
        apart: expression(s.apart),
        low: expression(s.low),
        high: expression(s.high),
      };
    case "prefetch":
      return { ...s, at: expression(s.at) };
    case "expect":
      return { ...s, at: s.at.map(expression) };
    case "put":
      return { ...s, index: expression(s.index), words: s.words.map(expression) };
    case "matrices":
      return { ...s, to: s.to.map(fragment), index: expression(s.index) };
    case "multiply":
      return {
        ...s,
        sums: fragment(s.sums),
        left: fragment(s.left),
        right: fragment(s.right),
      };
    case "warpgroup":
      return {
        ...s,
        products: s.products.map(({ sums, left, right }) => ({
          sums: fragment(sums),
          left: isFragment(left) ? fragment(left) : expression(left),
          right: expression(right),
        })),
      };
    case "round":
      return { ...s, at: fragment(s.at), rest: s.rest && fragment(s.rest) };
    case "barrier":
    case "commit":
    case "wait":
    case "fence":
    case "reload":
      return s;
  }
}

/** Accesses to local memory, by the names of arrays. */
export interface LocalAccess {
  readonly reads: Set<string>;
  /** With the statements that write. */
  readonly writes: Map<string, Statement[]>;
  /** Targets of copies: written where these are waited for. */
  readonly copies: Set<string>;
}

/** True where a statement, or one inside, reads or writes local memory. */
export const touchesLocal: (s: Statement) => boolean = kept(
  "touches",
  (s: Statement): boolean =>
    "place" in s && isLocal(s.place) ||
    expressionsOf(s).some(({ locals }) => locals.length > 0) ||
    "body" in s && s.body.some((inner) => touchesLocal(inner)),
);

/** Accesses to local memory by a statement and those inside. */
export function localAccess(s: Statement): LocalAccess {
  const access: LocalAccess = { reads: new Set(), writes: new Map(), copies: new Set() };
  const walk = (s: Statement): void => {
    for (const e of expressionsOf(s)) {
      for (const buffer of e.locals) access.reads.add(buffer);
    }
    if (s.s === "store" && isLocal(s.place) || s.s === "wait" || s.s === "pack") {
      access.writes.getOrInsert(s.place.buffer, []).push(s);
    }
    if (s.s === "matrices" || s.s === "warpgroup") access.reads.add(s.place.buffer);
    if (s.s === "copy") access.copies.add(s.place.buffer);
    if ("body" in s) s.body.forEach(walk);
  };
  walk(s);
  return access;
}
