/** Samples a second. */
export const RATE = 16_000;

/** Formants of five vowels in Hz: G. Peterson, H. Barney, 1952. */
const vowels = [
  [730, 1090, 2440],
  [270, 2290, 3010],
  [300, 870, 2240],
  [530, 1840, 2480],
  [570, 840, 2410],
] as const;

/** Widths of the formants in Hz, and how loud they are. */
const widths = [60, 90, 120], loudness = [1, 0.6, 0.3];

/** Uniform numbers from -0.5 to 0.5, the same ones always. */
function randomNumbers(seed: number): () => number {
  let state = seed;
  return () => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32 - 0.5;
}

/** Four syllables a second: pulses of a voice whose pitch moves, through resonances that go from vowel to vowel. */
function voice(seconds: number): Float32Array {
  const out = new Float32Array(seconds * RATE), random = randomNumbers(1);
  const former = widths.map(() => [0, 0] as [number, number]);
  let phase = 0;
  for (let k = 0; k < out.length; k++) {
    const t = k / RATE, syllable = Math.floor(4 * t), within = 4 * t - syllable;
    phase += (120 + 25 * Math.sin(1.4 * Math.PI * t) + 10 * Math.sin(8 * Math.PI * t)) / RATE;
    const isPulse = phase >= 1;
    if (isPulse) phase -= 1;
    const level = within < 0.8 ? Math.sin(Math.PI * within / 0.8) ** 0.6 : 0;
    const source = (Number(isPulse) + 0.02 * random()) * level;
    const [from, to] = [vowels[syllable % 5]!, vowels[(syllable + 1) % 5]!];
    out[k] = widths.reduce((sum, width, i) => {
      const frequency = from[i]! * (1 - within) + to[i]! * within;
      const r = Math.exp(-Math.PI * width / RATE), [last, before] = former[i]!;
      const turn = 2 * r * Math.cos(2 * Math.PI * frequency / RATE);
      const value = source * (1 - r) + turn * last - r * r * before;
      former[i] = [value, last];
      return sum + value * loudness[i]!;
    }, 0);
  }
  const peak = out.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  return out.map((value) => 0.5 * value / peak);
}

/** Faint noise, with a voice from the first second to the third, and noise again: four seconds. */
export function synthesisedSpeech(): Float32Array {
  const all = new Float32Array(4 * RATE), random = randomNumbers(7);
  all.set(voice(2), RATE);
  return all.map((value) => value + 0.004 * random());
}
