/**
 * The name that a wrong one was probably meant to be.
 *
 * @module
 */

/** A wrong name is no typing mistake where more than this share of its letters differs. */
const MAX_DIFFERENT_SHARE = 0.4;

/**
 * The known name nearest to a wrong one, or undefined where none is near. "batch_size" is
 * "batchSize", "epsilon" is "eps", "pading" is "padding".
 *
 * @param wrong The name that is not known.
 * @param names The known ones.
 */
export function nearestName(wrong: string, names: readonly string[]): string | undefined {
  const plainWrong = plain(wrong);
  let nearest: string | undefined, least = MAX_DIFFERENT_SHARE;
  for (const name of names) {
    const share = difference(plainWrong, plain(name));
    if (share < least) [nearest, least] = [name, share];
  }
  return nearest;
}

function plain(name: string): string {
  return name.toLowerCase().replaceAll(/[^a-z0-9]/g, "");
}

/** 0 for the same letters, 1 for other ones. */
function difference(a: string, b: string): number {
  if (a === b) return 0;
  const [short, long] = a.length < b.length ? [a, b] : [b, a];
  // One is short for the other: "eps" and "epsilon", "workers" and "num_workers".
  if (short.length >= 3 && (long.startsWith(short) || long.endsWith(short))) return 0.1;
  return editDistance(a, b) / long.length;
}

/** The number of letters to insert, delete or replace (V. Levenshtein, 1966). */
function editDistance(a: string, b: string): number {
  let former = Array.from({ length: b.length + 1 }, (_, k) => k);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = former[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      row.push(Math.min(replaced, former[j]! + 1, row[j - 1]! + 1));
    }
    former = row;
  }
  return former[b.length]!;
}

/** ` (did you mean "eps"?)` for a message, or nothing where no name is near. */
export function didYouMean(
  wrong: string,
  names: readonly string[],
  show: (name: string) => string = (name) => `"${name}"`,
): string {
  const nearest = nearestName(wrong, names);
  return nearest === undefined ? "" : ` (did you mean ${show(nearest)}?)`;
}
