/**
 * Choice of the next token on the device: scores are changed, unlikely ones dropped, and one is
 * drawn by a share of the sum of what is left.
 */
import { type Rules, takes } from "../../core/rules/options.ts";
import { internally } from "../../core/modes/temporaries.ts";
import { nextRandom, type RandomKey, repeatRandomKeys } from "../../core/random_state.ts";
import { Tensor } from "../../class/tensor.ts";
import type { TemplateVariables } from "../text/chat_template.ts";
import { realizeAll } from "../../execution/realization.ts";
import type { DeviceHandle } from "../../../backend/internal.ts";

/** Options for writing a text. */
export interface Sampling {
  /** Largest number of tokens; default as many as the model's context has room for. */
  maxTokens?: number;
  /** Divisor of scores; 0, the default, takes the likeliest token. */
  temperature?: number;
  /** Of how many tokens one is drawn, the likeliest; default 0, of all. */
  topK?: number;
  /** Draws of the likeliest tokens which together have this probability; default 1, of all. */
  topP?: number;
  /** Leaves out what is less likely than this share of the likeliest; default 0. */
  minP?: number;
  /** Divides the scores of tokens that were there before, multiplies negative ones; default 1. */
  repetitionPenalty?: number;
  /** The same seed gives the same text; by default the next one of the program's generator. */
  seed?: number;
  /**
   * Variables of the chat's template, such as `{ tools: [...] }` or `{ enable_thinking: false }`. For messages, not
   * for texts or ids.
   */
  template?: TemplateVariables;
  /** Texts at which to stop; they are not part of what is given. For texts, not for ids. */
  stop?: string[];
  /** Ends the writing with the signal's reason when it is aborted. */
  signal?: AbortSignal;
  /** True to go on behind the token that ends a text; false by default. */
  ignoreEnd?: boolean;
  /** Changes scores, (N, vocabulary), before one is chosen; `ids` are those of each sequence so far. */
  logits?: (scores: Tensor, ids: readonly (readonly number[])[]) => Tensor;
}

/** Rules for {@linkcode Sampling}. */
export const samplingRules: Rules<Sampling> = {
  maxTokens: takes.count,
  temperature: takes.nonNegative,
  topK: takes.whole,
  topP: takes.share,
  minP: takes.share,
  repetitionPenalty: takes.positive,
  seed: takes.integer,
  template: takes.object("variables by name"),
  stop: takes.texts,
  signal: takes.object("an AbortSignal"),
  ignoreEnd: takes.bool,
  logits: takes.callback,
};

/** Facts about earlier tokens that choosing needs, on the device. */
export class SamplerState implements Disposable {
  /** A number from 0 to 1 for each turn and sequence, (turns, N). */
  readonly draws: Tensor;
  /** Number of turns, int32 of [1]. */
  readonly turn: Tensor;
  /** 1 for tokens that were there, uint8 of (N, vocabulary); null where nobody asks. */
  readonly seen: Tensor | null;

  /**
   * Begins.
   *
   * @param prompts The ids that were there.
   * @param turns How many tokens will be chosen.
   */
  constructor(
    prompts: readonly (readonly number[])[],
    turns: number,
    vocabulary: number,
    { seed, repetitionPenalty = 1, temperature = 0 }: Sampling,
    device: DeviceHandle,
  ) {
    const key: RandomKey = seed === undefined ? nextRandom() : {
      seed: (seed ^ Math.imul(Math.floor(seed / 2 ** 32), 0x9e3779b1)) | 0,
      stream: { value: 0 },
    };
    const count = temperature === 0 ? 1 : turns;
    this.draws = repeatRandomKeys([key], () => Tensor.rand([count, prompts.length], { device }));
    this.turn = Tensor.zeros([1], { dtype: "int32", device });
    this.seen = repetitionPenalty === 1 ? null : seenIn(prompts, vocabulary, device);
    realizeAll(this.tensors);
  }

  /** All that it holds. */
  get tensors(): Tensor[] {
    return [this.draws, this.turn, ...this.seen ? [this.seen] : []];
  }

  /** Gives the memory back. */
  [Symbol.dispose](): void {
    for (const tensor of this.tensors) tensor.dispose();
  }
}

function seenIn(
  prompts: readonly (readonly number[])[],
  vocabulary: number,
  device: DeviceHandle,
): Tensor {
  const seen = new Uint8Array(prompts.length * vocabulary);
  prompts.forEach((ids, row) => ids.forEach((id) => seen[row * vocabulary + id] = 1));
  return Tensor.fromHost(seen, { shape: [prompts.length, vocabulary], device });
}

/**
 * Chooses the next tokens, and notes them.
 *
 * @param logits (N, vocabulary).
 * @returns int32 of (N, 1).
 */
export function chooseNext(logits: Tensor, state: SamplerState, options: Sampling): Tensor {
  const scores = penalised(logits.cast("float32"), state, options);
  const { temperature = 0 } = options;
  const ids = temperature === 0
    ? scores.argmax(-1, { keepDims: true }).cast("int32")
    : drawn(scores.div(temperature), state, options);
  internally(() => {
    if (state.seen) {
      const { seen } = state;
      using isNow = seen.indexLike([seen.shape[1]!]).eq(ids);
      using next = isNow.where(1, seen);
      seen.assign(next.cast("uint8"));
    }
    using next = state.turn.add(1);
    state.turn.assign(next);
  });
  return ids;
}

/** As N. Keskar et al. have it (CTRL, 2019), with negative scores multiplied, as transformers does. */
function penalised(
  scores: Tensor,
  { seen }: SamplerState,
  { repetitionPenalty = 1 }: Sampling,
): Tensor {
  if (!seen) return scores;
  const changed = scores.gt(0).where(scores.div(repetitionPenalty), scores.mul(repetitionPenalty));
  return seen.ne(0).where(changed, scores);
}

/** One of the tokens that are left, by the share of this turn. */
function drawn(scores: Tensor, { draws, turn }: SamplerState, options: Sampling): Tensor {
  const { topK = 0, topP = 1, minP = 0 } = options, vocabulary = scores.shape[1]!;
  const few = topK > 0 && topK < vocabulary ? scores.topk(topK, -1) : null;
  const candidates = few?.values ?? scores;
  let weights = candidates.softmax(-1);
  if (topP < 1) weights = weights.ge(nucleus(weights, topP)).where(weights, 0);
  if (minP > 0) {
    weights = weights.ge(weights.max(-1, { keepDims: true }).mul(minP)).where(weights, 0);
  }
  const sums = weights.cumsum(-1), total = sums.slice(null, [-1, sums.shape[1]!]);
  const share = draws.indexSelect(0, turn.minimum(draws.shape[0]! - 1)).transpose();
  // How many stand before it; rounding must lead to none that was left out.
  const place = sums.le(share.mul(total)).cast("int32").sum(-1, { keepDims: true });
  const last = sums.lt(total).cast("int32").sum(-1, { keepDims: true });
  const at = place.minimum(last);
  return (few ? few.indices.gather(1, at) : at).cast("int32");
}

/** Digits of the search below, and what each may be. */
const ROUNDS = 5, DIGITS = 32;

/**
 * The largest bound such that the weights of at least that sum up to `share` of all: of each row, by five
 * digits of base 32, each found by 32 sums at once. Sorting a whole vocabulary would take longer.
 */
function nucleus(weights: Tensor, share: number): Tensor {
  const [rows] = weights.shape, keepDims = true;
  const apart = weights.unsqueeze(1);
  const digits = weights.indexLike([DIGITS]).reshape([1, DIGITS, 1]).cast("float32");
  let bound = weights.max(-1, { keepDims }).mul(0).unsqueeze(-1);
  let width = weights.max(-1, { keepDims }).unsqueeze(-1);
  for (let k = 0; k < ROUNDS; k++) {
    width = width.div(DIGITS);
    const bounds = bound.add(digits.mul(width));
    const sums = apart.ge(bounds).where(apart, 0).sum(-1, { keepDims });
    const digit = sums.ge(share).cast("float32").sum(1, { keepDims }).sub(1).maximum(0);
    bound = bound.add(digit.mul(width));
  }
  // Devices round the last bits in other ways: none may leave out the weight that the bound is for.
  return bound.mul(1 - 2 ** -20).reshape([rows!, 1]);
}
