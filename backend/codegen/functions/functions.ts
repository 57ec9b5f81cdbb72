/** The scalar functions that every writer has, by their names. To add one: its function, and its row here. */
import { cosh, erf, exp, expm1, sigmoid, sinh, tanh } from "./exponentials.ts";
import type { LaneWriter } from "./lane_writer.ts";
import { acosh, asinh, atanh, log, log1p } from "./logarithms.ts";
import { erfc, exp2, log10, log2, pow } from "./powers.ts";
import { acos, asin, atan, atan2, cos, sin, tan } from "./trigonometry.ts";

/** A function of one or two operands. */
export type LaneFunction = <V>(m: LaneWriter<V>, a: V, b: V) => V;

/** Those whose second operand counts. */
export const binaryFunctions = { pow, atan2 } as const satisfies Record<string, LaneFunction>;

/** All of them. */
export const functions = {
  ...{ exp, expm1, exp2, log, log2, log10, log1p, sigmoid, tanh, erf, erfc },
  ...{ sin, cos, tan, asin, acos, atan, sinh, cosh, asinh, acosh, atanh },
  ...binaryFunctions,
} as const satisfies Record<string, LaneFunction>;

/** The name of such a function, which is that of its primitive. */
export type FunctionName = keyof typeof functions;
