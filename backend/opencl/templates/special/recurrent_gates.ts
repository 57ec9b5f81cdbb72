/** The gates of recurrent layers in OpenCL C, 16 features of a row at a time. */
import type { RecurrentGates } from "../../../graph/op.ts";

/** Reads and writes of a step, as text. */
export interface StepText {
  /** Input of a gate from the input and from the product with h: added, or each by itself. */
  readonly sum: (gate: number) => string;
  readonly input: (gate: number) => string;
  readonly hidden: (gate: number) => string;
  /** A plane before the step, and after it. */
  readonly before: (plane: number) => string;
  readonly after: (plane: number) => string;
}

/** Statements, and the expressions of what they found. */
interface Found {
  readonly lines: readonly string[];
  readonly values: readonly string[];
}

/** Such as a step's planes: states, then what the backward pass reads. */
export const stepTexts: Readonly<Record<RecurrentGates, (text: StepText) => Found>> = {
  lstm: ({ sum, before }) => ({
    lines: [
      `const float16 i = sigmoid_16(${sum(0)}), f = sigmoid_16(${sum(1)});`,
      `const float16 g = tanh_16(${sum(2)}), o = sigmoid_16(${sum(3)});`,
      `const float16 c = f * ${before(1)} + i * g, h = o * tanh_16(c);`,
    ],
    values: ["h", "c", "i", "f", "g", "o"],
  }),
  gru: ({ sum, input, hidden, before }) => ({
    lines: [
      `const float16 reset = sigmoid_16(${sum(0)}), z = sigmoid_16(${sum(1)}), inner = ${
        hidden(2)
      };`,
      `const float16 n = tanh_16(${input(2)} + reset * inner), h = n + z * (${before(0)} - n);`,
    ],
    values: ["h", "reset", "z", "n", "inner"],
  }),
  tanh: ({ sum }) => ({ lines: [], values: [`tanh_16(${sum(0)})`] }),
  relu: ({ sum }) => ({
    lines: [`const float16 x = ${sum(0)};`],
    values: ["select(x, (float16)0.0f, x < 0.0f)"],
  }),
};

/** The blocks of a step's gradients, and what flows to each state before it beside the product. */
export interface GradientText extends Found {
  readonly direct: readonly string[];
}

/** Gradients from `d0` and `d1`, those of the states after the step. */
export const gradientTexts: Readonly<Record<RecurrentGates, (text: StepText) => GradientText>> = {
  lstm: ({ before, after }) => ({
    lines: [
      `const float16 i = ${after(2)}, f = ${after(3)}, g = ${after(4)}, o = ${after(5)};`,
      `const float16 t = tanh_16(${after(1)}), dc = d1 + d0 * o * (1.0f - t * t);`,
    ],
    values: [
      "dc * g * i * (1.0f - i)",
      `dc * ${before(1)} * f * (1.0f - f)`,
      "dc * i * (1.0f - g * g)",
      "d0 * t * o * (1.0f - o)",
    ],
    direct: ["(float16)0.0f", "dc * f"],
  }),
  gru: ({ before, after }) => ({
    lines: [
      `const float16 reset = ${after(1)}, z = ${after(2)}, n = ${after(3)}, inner = ${after(4)};`,
      "const float16 dn = d0 * (1.0f - z) * (1.0f - n * n);",
    ],
    values: [
      "dn",
      "dn * inner * reset * (1.0f - reset)",
      `d0 * (${before(0)} - n) * z * (1.0f - z)`,
      "dn * reset",
    ],
    direct: ["d0 * z"],
  }),
  tanh: ({ after }) => ({
    lines: [`const float16 y = ${after(0)};`],
    values: ["d0 * (1.0f - y * y)"],
    direct: ["(float16)0.0f"],
  }),
  relu: ({ after }) => ({
    lines: [],
    values: [`select((float16)0.0f, d0, ${after(0)} > 0.0f)`],
    direct: ["(float16)0.0f"],
  }),
};
