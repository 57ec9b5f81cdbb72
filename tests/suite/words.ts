/**
 * Words by which tests say how the suite runs them: a file in a line `// Suite: word, word; reason.` at its
 * beginning, a folder for the files below it in `suite.json`.
 */

/**
 * - `alone`: in a process of its own, because it asks about the whole process, or takes longer behind others.
 * - `first`: in a process of its own that begins early, because it takes long.
 * - `waits`: in a process of its own, one such after the other beside the rest, because it mostly waits.
 * - `process`: the files below this folder share a process, without those of folders with their own.
 * - `quick kernels`: PoCL compiles without optimizing, in half the time or two thirds of it. That optimized
 *   kernels are right is what the others hold: every operation and type in `conformance/values` and
 *   `conformance/primitives`, random graphs in `fuzz/` and `tensor/graphs`, the tests of `tensor/ops/` and of
 *   code generators and templates in `backend/`.
 * - `optimized kernels`: the same kernels as users have, in a folder of quick ones.
 * - `no device`: asks none for anything, such as programs that an interpreter runs, or names the built-in one
 *   wherever it asks: not run again where an earlier run has passed it (NETCL_TESTED).
 */
export const words = [
  "alone",
  "first",
  "waits",
  "process",
  "quick kernels",
  "optimized kernels",
  "no device",
] as const;

/** See {@linkcode words}. */
export type Word = (typeof words)[number];

function checked(given: readonly string[], path: string): readonly Word[] {
  const isWord = (word: string): word is Word => (words as readonly string[]).includes(word);
  const unknown = given.filter((word) => !isWord(word));
  if (unknown.length === 0) return given.filter(isWord);
  throw new Error(`${path} has unknown words of the suite ("${unknown}"): known are ${words}`);
}

/** The words of a file's text. */
export function wordsIn(text: string, path: string): readonly Word[] {
  const [, given] = text.match(/^\/\/ Suite: ([^;\n]*);/) ?? [];
  return given === undefined ? [] : checked(given.split(", "), path);
}

const known = new Map<string, readonly Word[]>();

function wordsOfFolder(folder: string): readonly Word[] {
  const before = known.get(folder);
  if (before !== undefined) return before;
  const path = `${folder}/suite.json`;
  let found: readonly Word[] = [];
  try {
    found = checked(JSON.parse(Deno.readTextFileSync(path)).suite, path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  known.set(folder, found);
  return found;
}

/** Manner in which a file of tests is run. */
export interface Manner {
  /** Its own words. */
  readonly words: readonly Word[];
  /** True in a process of its own. */
  readonly isAlone: boolean;
  readonly waits: boolean;
  readonly hasQuickKernels: boolean;
  /** False for what a machine with other devices runs in the same way. */
  readonly hasDevice: boolean;
  /** The folder with whose files it shares a process, if it is not alone. */
  readonly folder: string;
}

/** The manner of a file: its own words count before those of the folders above it, the nearest first. */
export function mannerOf(path: string): Manner {
  const own = wordsIn(Deno.readTextFileSync(path), path);
  const parts = path.split("/"),
    folders = parts.map((_, k) => parts.slice(0, k).join("/"))
      .slice(1).reverse();
  const all = [own, ...folders.map(wordsOfFolder)];
  const kernels = all.flat().find((word) => word.endsWith(" kernels"));
  const waits = all.flat().includes("waits");
  return {
    words: own,
    isAlone: waits || own.includes("alone") || own.includes("first"),
    waits,
    hasQuickKernels: kernels === "quick kernels",
    hasDevice: !all.flat().includes("no device"),
    folder: folders.find((folder) => wordsOfFolder(folder).includes("process")) ?? parts[0]!,
  };
}
