/**
 * Programs of matrices as WebAssembly. A thread has a matrix for itself, and `each` is a loop whose rounds lie
 * side by side in the lanes of vectors where its body lets them: where it reads and writes elements at places
 * that are sums with multiples of the round, and asks nothing of a round that sends it another way. `fold`
 * goes by lanes, too: each lane has a part of the sum. What does not go by lanes is done one by one.
 *
 * This file has the frame: the arguments and the loop over matrices. `statements.ts` has what is within it,
 * by the loops of `range_loops.ts`, `assignments.ts`, `real_expressions.ts` and `integer_expressions.ts`.
 */
import type { MatrixProgram } from "../../../matrix/language.ts";
import { FunctionBuilder, type Local } from "../assembler.ts";
import { i32 } from "../opcodes.ts";
import { Statements } from "./statements.ts";
import { Writer } from "./writer.ts";

/** Words of arguments: the address of each array, the bytes from matrix to matrix, the numbers. */
export function argumentWords({ arrays, numbers }: MatrixProgram): number {
  return 2 * arrays.length + numbers.length;
}

/**
 * The module of a program, which runs a range of matrices.
 *
 * @throws {NoInstruction} When it calls a function that is not here.
 */
export function matrixModule(program: MatrixProgram, relaxed: boolean): Uint8Array<ArrayBuffer> {
  const writer = new Writer(program, relaxed), statements = new Statements(writer);
  const { f, control, variables } = writer, { args, begin, end } = FunctionBuilder.parameters;
  const { arrays, numbers, body } = program;
  const word = (at: number): Local =>
    f.once(`word ${at}`, () => f.loadNumber(i32.load, args, 4 * at));
  numbers.forEach((name, k) => variables.declare(name, "int", word(2 * arrays.length + k)));
  for (const { name } of arrays) variables.declare(name, "int", f.number(), { isArray: true });
  f.loop(begin, end, 1, (matrix) => {
    arrays.forEach(({ name }, k) => {
      const moved = f.i(i32.mul, matrix, word(2 * k + 1));
      f.assign(variables.find(name).local, f.i(i32.add, word(2 * k), moved));
    });
    // A loop of one round: what does not change in a matrix is computed before its statements.
    const once = f.copy(f.integer(1));
    control.loop({
      variable: null,
      changing: body,
      condition: () => once,
      body: () => statements.block(body),
      step: () => f.assign(once, f.integer(0)),
    });
  });
  return f.finish();
}
