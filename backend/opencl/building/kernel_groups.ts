/** Groups of kernels built as one program. */
import { hasLifted } from "../codegen/units/warpgroup_helpers.ts";

/** Characters from which a kernel is a program of its own where programs are built side by side. */
const LARGE_CHARACTERS = 5000;
/** Kernels of a program there, and where programs are compiled while others compute. */
const GROUP_KERNELS = 8;

/**
 * Kernels by the program that they are built in. What is lifted is built in another way, so that it is
 * not mixed with others.
 */
export function groupsOf<T extends { readonly source: string }>(
  texts: readonly T[],
  isSideBySide: boolean,
): T[][] {
  const groups: T[][] = [];
  const alone = (text: T): boolean =>
    isSideBySide && (text.source.length >= LARGE_CHARACTERS || hasLifted(text.source));
  const [lifted, plain] = [true, false].map((wanted) =>
    texts.filter((text) => !alone(text) && hasLifted(text.source) === wanted)
  );
  for (const part of [plain!, lifted!]) {
    const size = isSideBySide ? GROUP_KERNELS : Infinity;
    for (let at = 0; at < part.length; at += size) groups.push(part.slice(at, at + size));
  }
  for (const text of texts) if (alone(text)) groups.push([text]);
  return groups;
}
