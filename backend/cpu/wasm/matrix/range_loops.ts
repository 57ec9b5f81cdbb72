/**
 * Loops over a range: rounds one after the other, or side by side in the lanes of vectors.
 */
import { innerStatements, type Range, type Statement } from "../../../matrix/language.ts";
import type { Local } from "../assembler.ts";
import { i32 } from "../opcodes.ts";
import type { IntegerExpressions } from "./integer_expressions.ts";
import { type Join, NotByLanes, type Part } from "./variables.ts";
import type { Writer } from "./writer.ts";

/** A loop that goes by lanes. */
interface LaneLoop {
  readonly name: string;
  readonly at: Local;
  /** Not reached. */
  readonly end: Local;
  readonly body: readonly Statement[];
  readonly write: () => void;
  /** Variables that were there before the loop. */
  readonly outer: ReadonlySet<string>;
  readonly joins: ReadonlyMap<string, Join>;
}

/** Writes loops over a range. */
export class RangeLoops {
  readonly #writer: Writer;
  readonly #integers: IntegerExpressions;

  constructor(writer: Writer, integers: IntegerExpressions) {
    this.#writer = writer;
    this.#integers = integers;
  }

  /** Rounds one after the other. */
  rounds(range: Range, body: readonly Statement[], write: () => void): void {
    const { control, variables } = this.#writer,
      { name } = range,
      { at, end } = this.#bounds(range);
    variables.inScope(() => {
      variables.declare(name, "int", at);
      control.count({ name, at, end, step: 1 }, body, write);
    });
  }

  /** Rounds by lanes, several vectors at a time, then one by one vector, then the rest one by one. */
  byLanes(
    range: Range,
    body: readonly Statement[],
    joins: ReadonlyMap<string, Join>,
    write: () => void,
  ): void {
    const { control, variables } = this.#writer, { name } = range, most = vectorsOf(body);
    const { at, end } = this.#bounds(range), outer = variables.names();
    variables.inScope(() => {
      variables.declare(name, "int", at);
      const loop = { name, at, end, body, write, outer, joins };
      for (const vectors of most > 1 ? [most, 1] : [1]) {
        if (!this.#tryLanes(loop, vectors)) break;
      }
      control.count({ name, at, end, step: 1 }, body, write);
    });
  }

  #bounds({ from, to }: Range): { at: Local; end: Local } {
    const { f } = this.#writer;
    return { at: f.copy(this.#integers.of(from)), end: f.copy(this.#integers.of(to)) };
  }

  /** False, and nothing is written, where the body does not go by lanes. */
  #tryLanes(loop: LaneLoop, count: number): boolean {
    const { f, vectors } = this.#writer;
    try {
      vectors.vectors = count;
      f.append(f.detached(() => this.#lanes(loop)));
      return true;
    } catch (error) {
      if (!(error instanceof NotByLanes)) throw error;
      return false;
    } finally {
      vectors.vectors = 1;
    }
  }

  #lanes({ name, at, end, body, write, outer, joins }: LaneLoop): void {
    const { f, control, variables, vectors } = this.#writer;
    const step = vectors.vectors * vectors.lanes;
    const parts = new Map([...joins].map(([name, how]) => [name, this.#newPart(name, how)]));
    const count = { name, at, end: f.iWith(i32.sub, end, step - 1), step };
    control.count(count, body, () => variables.inLanes({ name, parts, outer }, write));
    for (const [name, part] of parts) this.#gather(name, part);
  }

  #newPart(name: string, how: Join): Part {
    const { variables, vectors } = this.#writer, local = vectors.variable(true);
    vectors.assign(local, how === "+" ? vectors.constant(0) : variables.find(name).local);
    return { local, how };
  }

  /** Joins the lanes of a part, and them with the variable. */
  #gather(name: string, { local, how }: Part): void {
    const { variables, vectors } = this.#writer;
    const own = variables.find(name).local, all = vectors.across(how, local);
    vectors.assign(own, how === "+" ? vectors.add(own, all) : vectors.call(how, [own, all])!);
  }
}

/** Vectors side by side, where the engine has registers for so many variables of a body. */
function vectorsOf(body: readonly Statement[]): number {
  const variables = (list: readonly Statement[]): number =>
    list.reduce((sum, s) => {
      const own = s.s === "declare" && s.type === "T" ? 1 : 0;
      return sum + own + variables(innerStatements(s));
    }, 0);
  const count = variables(body);
  return count <= 4 ? 4 : count <= 8 ? 2 : 1;
}
