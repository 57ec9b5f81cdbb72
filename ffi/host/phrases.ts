/** The words by which messages speak of a call: "Cannot add ...", "Cannot compute svd of ...". */

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
const joining = /^(of|on|in|at|by|to|from|with|into|along|between|without|inside)\b/;

/** A message of an operation whose name is no verb: "Cannot svd a tensor" computes svd of a tensor. */
export function spoken(message: string, operation: string): string {
  const begin = `Cannot ${operation} `, phrase = phraseOf(operation);
  if (phrase === operation || !message.startsWith(begin)) return message;
  const rest = message.slice(begin.length);
  return `Cannot ${phrase} ${joining.test(rest) ? "" : "of "}${rest}`;
}
