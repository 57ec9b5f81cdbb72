/**
 * Uniform random numbers by Philox4x32-10 (J. Salmon, M. Moraes, R. Dror, D. Shaw, Parallel random
 * numbers: as easy as 1, 2, 3, SC 2011), bit for bit those of the other ways to compute.
 *
 * This folder (`functions/`) has what only vectors of four lanes compute so: doubles, remainders, random
 * numbers. It imports the assembler and `math.ts` of `wasm/`, and gives them to `loops/`.
 */
import { FunctionBuilder, type Local } from "../assembler.ts";
import { f32x4, i32, i32x4, i64x2, v128 } from "../opcodes.ts";

const MULTIPLIERS = [0xd2511f53, 0xcd9e8d57] as const;
/** Increments of the key's two words from round to round. */
const STEPS = [0x9e3779b9, 0xbb67ae85] as const;
/** The second word of the first round's key. */
const SECOND_WORD = 0x9e3779b9;
const ROUNDS = 10;

/** About how many instructions a vector takes. */
export const RANDOM_COST = 170;

/** The lower and the upper halves of four products. */
interface Product {
  readonly low: Local;
  readonly high: Local;
}

/** Part independent of the element: computed once before all loops. */
export interface RandomKey {
  /** The first word of each round's key. */
  readonly words: readonly Local[];
  /** Input of the second round: the product of the stream, exclusive or the first of those. */
  readonly product: Product;
}

/** The key of a random tensor; `seed` and `stream`: where they lie behind the first argument. */
export function randomKey(f: FunctionBuilder, seed: number, stream: number): RandomKey {
  const { args } = FunctionBuilder.parameters;
  const word = (offset: number): Local =>
    f.once(`word ${offset}`, () => f.loadNumber(i32.load, args, offset));
  const first = word(seed), key = `random ${seed} ${stream}`;
  const words = Array.from({ length: ROUNDS }, (_, round) =>
    f.once(
      `random ${seed} round ${round}`,
      () => f.v(i32x4.splat, f.iWith(i32.add, first, Math.imul(round, STEPS[0]))),
    ));
  const keyedStream = f.once(
    key,
    () => f.v(v128.xor, f.v(i32x4.splat, word(stream)), words[0]!),
  );
  const low = f.once(`${key} low`, () => multiply(f, 0, keyedStream).low);
  const high = f.once(`${key} high`, () => multiply(f, 0, keyedStream).high);
  return { words, product: { low, high } };
}

/** The second word of a round's key. */
function secondWord(f: FunctionBuilder, round: number): Local {
  return f.splat((SECOND_WORD + Math.imul(round, STEPS[1])) | 0);
}

/** Lanes multiplied by a constant, without a sign. */
function multiply(f: FunctionBuilder, which: 0 | 1, x: Local): Product {
  const pairs = products(f, which, x);
  const halves = (lanes: readonly number[]): Local => f.shuffle32(...pairs, lanes);
  return { low: halves([0, 2, 4, 6]), high: halves([1, 3, 5, 7]) };
}

function products(f: FunctionBuilder, which: 0 | 1, x: Local): [Local, Local] {
  const multiplier = f.splat(MULTIPLIERS[which] | 0);
  return [f.v(i64x2.mulLow, x, multiplier), f.v(i64x2.mulHigh, x, multiplier)];
}

function upperHalves(f: FunctionBuilder, which: 0 | 1, x: Local): Local {
  return f.shuffle32(...products(f, which, x), [1, 3, 5, 7]);
}

/**
 * A number in [0, 1) for each lane of `index`, which is not negative: 24 bits of the first of the
 * four words that belong to it. The counter is (index, stream, 0, 0); what a round makes of zeros,
 * of what is equal in all lanes, and for the three words that nobody reads, is left out.
 */
export function uniform(f: FunctionBuilder, index: Local, key: RandomKey): Local {
  const xor = (a: Local, b: Local): Local => f.v(v128.xor, a, b);
  const first = multiply(f, 0, index);
  const second = multiply(f, 1, xor(first.high, secondWord(f, 0)));
  let c0 = xor(second.high, key.words[1]!), c1 = second.low;
  let c2 = xor(xor(first.low, key.product.high), secondWord(f, 1)), c3 = key.product.low;
  for (let round = 2; round < ROUNDS - 2; round++) {
    const p0 = multiply(f, 0, c0), p1 = multiply(f, 1, c2);
    c0 = xor(xor(p1.high, c1), key.words[round]!);
    c2 = xor(xor(p0.high, c3), secondWord(f, round));
    [c1, c3] = [p1.low, p0.low];
  }
  const before = ROUNDS - 2;
  const last = xor(xor(upperHalves(f, 0, c0), c3), secondWord(f, before));
  const low = f.v(i32x4.mul, c2, f.splat(MULTIPLIERS[1] | 0));
  const word = xor(xor(upperHalves(f, 1, last), low), key.words[ROUNDS - 1]!);
  const bits = f.v(f32x4.convert, f.shift(i32x4.shrU, word, 8));
  return f.v(f32x4.mul, bits, f.float(2 ** -24));
}
