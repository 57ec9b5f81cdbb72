/**
 * The wording of messages: "Cannot add ...", "Cannot compute svd of ...", "did you mean ...?".
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

/** Names of operations that are verbs; what has another name is computed. */
const verbs: ReadonlySet<string> = new Set(
  ("add append assign attend autocast broadcast cast chat checkpoint chunk clamp compare compile " +
    "concat decode detach differentiate div draw embed encode expand fill flatten flip fold gather " +
    "generate init integrate interpolate learn linearize load make matmul mul normalize pad permute " +
    "print read realize repeat reshape roll round save scale scatter select shift slice solve sort " +
    "split squeeze stack step sub sum take train transpose unbind unfold unsqueeze wrap write")
    .split(
      " ",
    ),
);

/**
 * The words after "Cannot" for what a call does.
 *
 * @param action The name of an operation, or a phrase: "svd", "add", "make a Linear".
 * @returns "compute svd", "add", "make a Linear".
 */
export function phraseOf(action: string): string {
  return action.includes(" ") || verbs.has(action) ? action : `compute ${action}`;
}

/** Words that may follow a noun. */
const joining = /^(of|on|in|at|by|to|from|with|into|along|between|without|inside|over)\b/;

/** A message of an operation whose name is no verb: "Cannot svd a tensor" computes svd of a tensor. */
export function spoken(message: string, operation: string): string {
  const begin = `Cannot ${operation} `, phrase = phraseOf(operation);
  if (phrase === operation || !message.startsWith(begin)) return message;
  const rest = message.slice(begin.length);
  return `Cannot ${phrase} ${joining.test(rest) ? "" : "of "}${rest}`;
}
