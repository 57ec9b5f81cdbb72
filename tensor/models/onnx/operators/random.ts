/**
 * Random numbers. They are the next of the library's one sequence, which `manualSeed` starts: a node's own
 * seed is left.
 */
import { Tensor } from "../../../class/tensor.ts";
import { type Call, type Operators, typed } from "../core/call.ts";
import type { Value } from "../core/value.ts";
import { typeByNumber } from "../format/types.ts";

/** The shape that a node says, or that of its input; and the type. */
function drawn(call: Call, draw: (shape: readonly number[]) => Tensor): Value {
  const model = call.has(0) ? call.value(0) : null;
  const type = model && !call.says("dtype") ? model.type : typeByNumber(call.int("dtype", 1));
  return typed(draw(model?.shape ?? call.ints("shape") ?? []).cast(type.dtype), type);
}

function normal(call: Call): Value {
  const mean = call.float("mean", 0), scale = call.float("scale", 1);
  return drawn(call, (shape) => Tensor.randn([...shape]).mul(scale).add(mean));
}

function uniform(call: Call): Value {
  const low = call.float("low", 0), high = call.float("high", 1);
  return drawn(call, (shape) => Tensor.rand([...shape]).mul(high - low).add(low));
}

/** Places by unnormalised logarithms of their probabilities. */
function multinomial(call: Call): Value {
  const count = call.int("sample_size", 1), type = typeByNumber(call.int("dtype", 6));
  const shares = call.tensor(0).cast("float32").softmax(-1);
  return typed(shares.multinomial(count, { replacement: true }).cast(type.dtype), type);
}

/** Random numbers, by their kinds. */
export const random: Operators = {
  RandomNormal: normal,
  RandomNormalLike: normal,
  RandomUniform: uniform,
  RandomUniformLike: uniform,
  Bernoulli: (call) => {
    const type = call.says("dtype") ? typeByNumber(call.int("dtype", 1)) : call.value(0).type;
    return typed(call.tensor(0).cast("float32").bernoulli().cast(type.dtype), type);
  },
  Multinomial: multinomial,
};
