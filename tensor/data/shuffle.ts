/**
 * The orders in which data is seen: permutations that depend on a seed and a number alone, so the
 * same program sees the same order on every device and in every run.
 */
import { nextRandom } from "../core/random_state.ts";

const ROUNDS = 10;
const MULTIPLIERS = [0xd2511f53, 0xcd9e8d57] as const;
const KEY_STEPS = [0x9e3779b9, 0xbb67ae85] as const;
const TWO_32 = 2 ** 32;

type Words = [number, number, number, number];

/**
 * Philox 4x32-10 (Salmon et al., Parallel Random Numbers: As Easy as 1, 2, 3, 2011).
 *
 * @param counter Four 32-bit words.
 * @param key Two 32-bit words.
 * @returns Four 32-bit words that look random.
 */
export function philox(counter: Readonly<Words>, key: readonly [number, number]): Words {
  let [a, b, c, d] = counter;
  let [k0, k1] = key;
  for (let round = 0; round < ROUNDS; round++) {
    const [high0, low0] = multiply(MULTIPLIERS[0], a);
    const [high1, low1] = multiply(MULTIPLIERS[1], c);
    [a, b, c, d] = [(high1 ^ b ^ k0) >>> 0, low1, (high0 ^ d ^ k1) >>> 0, low0];
    k0 = (k0 + KEY_STEPS[0]) >>> 0;
    k1 = (k1 + KEY_STEPS[1]) >>> 0;
  }
  return [a, b, c, d];
}

/** The two halves of a product of 32-bit words. */
function multiply(a: number, b: number): [high: number, low: number] {
  const upper = (a >>> 16) * b; // below 2^48, so exact
  const lower = (a & 0xffff) * b;
  const sum = (upper % 0x10000) * 0x10000 + lower;
  return [(Math.floor(upper / 0x10000) + Math.floor(sum / TWO_32)) >>> 0, Math.imul(a, b) >>> 0];
}

/**
 * The numbers from 0 to `length - 1` in an order of chance (Fisher and Yates).
 *
 * @param length How many.
 * @param seed A whole number; another one gives another order.
 * @param draw Counts the orders that are drawn from one seed, such as the epochs.
 * @throws {RangeError} For a seed that is no whole number from 0 to 2^53 - 1.
 */
export function permutation(length: number, seed: number, draw = 0): number[] {
  if (!Number.isSafeInteger(seed) || seed < 0) {
    throw new RangeError(
      `Cannot draw an order with the seed ${seed}: pass a whole number from 0 to 2^53 - 1`,
    );
  }
  const key = [seed % TWO_32, Math.floor(seed / TWO_32)] as const;
  const order = Array.from({ length }, (_, i) => i);
  for (let i = length - 1; i > 0; i--) {
    const [high, low] = philox([i, draw, 0, 0], key);
    const j = Math.floor((high / TWO_32 + (low >>> 11) / 2 ** 53) * (i + 1));
    [order[i], order[j]] = [order[j]!, order[i]!];
  }
  return order;
}

/**
 * As many draws of 0 to `weights.length - 1` as there are weights, each by its weight, with
 * replacement; of one seed and draw always the same.
 */
export function weightedOrder(
  weights: ArrayLike<number>,
  seed: number,
  draw: number,
): number[] {
  const key = [seed % TWO_32, Math.floor(seed / TWO_32)] as const;
  const bounds = new Float64Array(weights.length);
  let total = 0;
  for (let i = 0; i < weights.length; i++) bounds[i] = total += weights[i]!;
  return Array.from({ length: weights.length }, (_, i) => {
    // Of another kind than the counters of permutations.
    const [high, low] = philox([i, draw, 1, 0], key);
    const place = (high / TWO_32 + (low >>> 11) / 2 ** 53) * total;
    let [from, to] = [0, weights.length - 1];
    while (from < to) {
      const middle = (from + to) >> 1;
      if (bounds[middle]! > place) to = middle;
      else from = middle + 1;
    }
    return from;
  });
}

/**
 * A permutation by a seed that may be left open: then the next random number of the program is drawn,
 * which `manualSeed` fixes.
 */
export function shuffled(length: number, seed: number | undefined, draw = 0): number[] {
  if (seed !== undefined) return permutation(length, seed, draw);
  const key = drawKey();
  return permutation(length, key.seed, key.draw);
}

/** The next random number of the program, as a seed of {@link permutation}. */
export function drawKey(): { seed: number; draw: number } {
  const { seed, stream } = nextRandom();
  return { seed: seed >>> 0, draw: stream.value >>> 0 };
}
