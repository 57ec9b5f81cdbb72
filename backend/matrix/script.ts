/** Programs of matrices as JavaScript: functions of the arrays of one matrix and the numbers. */
import type { Expression, MatrixProgram, Range, Statement } from "./language.ts";

const mathNames = ["sqrt", "fabs", "fmax", "fmin", "exp", "log", "floor"] as const;
const { abs: fabs, max: fmax, min: fmin, sqrt, exp, log, floor } = Math;
const math = { sqrt, fabs, fmax, fmin, exp, log, floor };

/** A program that computes one matrix in place. */
export type MatrixScript = (...args: (ArrayLike<number> | number)[]) => void;

/** The function of a program. */
export function matrixScript(program: MatrixProgram): MatrixScript {
  const { constants, arrays, numbers, body } = program;
  const names = [...arrays.map(({ name }) => name), ...numbers];
  const make = new Function(
    ...mathNames,
    ...Object.keys(constants),
    `return (${names.join(", ")}) => ${block(body)};`,
  );
  return make(...mathNames.map((name) => math[name]), ...Object.values(constants)) as MatrixScript;
}

const block = (body: readonly Statement[]): string => `{\n${body.map(statement).join("\n")}\n}`;

function loop({ name, from, to }: Range, body: string): string {
  return `for (let ${name} = ${text(from)}; ${name} < ${text(to)}; ${name}++) ${body}`;
}

function statement(s: Statement): string {
  switch (s.s) {
    case "declare":
      return `let ${s.name} = ${text(s.value)};`;
    case "assign":
      return `${text(s.to)} ${s.op}= ${text(s.value)};`;
    case "if": {
      const otherwise = s.otherwise.length > 0 ? ` else ${block(s.otherwise)}` : "";
      return `if (${text(s.condition)}) ${block(s.then)}${otherwise}`;
    }
    case "while":
      return `while (${text(s.condition)}) ${block(s.body)}`;
    case "for": {
      const step = statement(s.step).slice(0, -1);
      return `for (${statement(s.start)} ${text(s.condition)}; ${step}) ${block(s.body)}`;
    }
    case "each":
      return s.ranges.reduceRight((inner, range) => loop(range, inner), block(s.body));
    case "fold":
      return loop(s.range, block(s.body));
    case "block":
      return block(s.body);
    case "sync":
      return "";
    case "break":
      return "break;";
    default:
      throw s satisfies never;
  }
}

function text(e: Expression): string {
  switch (e.e) {
    case "number":
      return `${e.value}`;
    case "name":
      return e.name;
    case "at":
      return `${e.array}[${text(e.index)}]`;
    case "unary":
      return `(${e.op}${text(e.of)})`;
    case "binary":
      return `(${text(e.left)} ${e.op} ${text(e.right)})`;
    case "choose":
      return `(${text(e.condition)} ? ${text(e.then)} : ${text(e.otherwise)})`;
    case "cast":
      return e.to === "int" ? `Math.trunc(${text(e.of)})` : text(e.of);
    case "call":
      return `${e.name}(${e.args.map(text).join(", ")})`;
    default:
      throw e satisfies never;
  }
}
