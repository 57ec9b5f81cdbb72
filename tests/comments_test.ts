// Suite: no device; reads sources.
/** The words of the sources: comments name files that exist and begin plainly, tests name their symbol. */
import { assertEquals } from "@std/assert";

const root = new URL("../", import.meta.url);
const folders = ["ffi", "memory", "backend", "tensor", "bench", "examples"];

interface File {
  /** From the root. */
  readonly path: string;
  readonly text: string;
}

function* sources(folder: string): Generator<File> {
  for (const { name, isDirectory } of Deno.readDirSync(new URL(folder, root))) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* sources(path);
    else if (name.endsWith(".ts")) yield { path, text: Deno.readTextFileSync(new URL(path, root)) };
  }
}

/** The text of all comments; strings that look like comments do no harm. */
function comments(text: string): string {
  // What an example imports is the reader's own.
  const prose = text.replace(/```[\s\S]*?```/g, "");
  return (prose.match(/\/\*[\s\S]*?\*\/|(?<![:"'`])\/\/ .*/g) ?? []).join("\n");
}

/** The files that `path` names in its comments and that do not exist. */
function missing({ path, text }: File, paths: ReadonlySet<string>): string[] {
  const named = comments(text).match(/(?<![\w./*-])[\w./-]*\w\.ts\b/g) ?? [];
  const exists = (name: string): boolean =>
    name.startsWith(".")
      ? paths.has(new URL(name, `file:///${path}`).pathname.slice(1))
      : [...paths].some((known) => known === name || known.endsWith(`/${name}`));
  return named.filter((name) => !exists(name)).map((name) => `${path}: ${name}`);
}

Deno.test("every file that a comment names exists", () => {
  const files = folders.flatMap((folder) => [...sources(folder)]);
  const tests = [...sources("tests")].map(({ path }) => path);
  const paths = new Set(["mod.ts", ...tests, ...files.map(({ path }) => path)]);
  assertEquals(files.flatMap((file) => missing(file, paths)), []);
});

Deno.test("a file that does not exist is found in a comment, and nowhere else", () => {
  const paths = new Set(["memory/core/pool.ts"]);
  const find = (text: string) => missing({ path: "a.ts", text }, paths);
  assertEquals(find("// see memory/core/pool.ts and pool.ts, ./memory/core/pool.ts"), []);
  assertEquals(
    find(["/** `gone", " says more */ // or ./pool", ""].join(".ts")),
    ["a.ts: gone.ts", "a.ts: ./pool.ts"],
  );
  assertEquals(find(['import "./gone', '"; const url = "https://host/gone', '";'].join(".ts")), []);
});

/** First lines of doc comments that ask instead of saying what they stand before. */
function questions({ path, text }: File): string[] {
  const first = [...text.matchAll(/\/\*\*\s*\n?\s*\*? *(\w+\b.*)/g)].map(([, line]) => line!);
  return first.filter((line) => /^(What|Who|Whose|Whether|How|Where|Which|When|Why)\b/.test(line))
    .map((line) => `${path}: ${line}`);
}

Deno.test("every doc comment begins with a noun phrase or a verb", () => {
  const files = [...folders, "tests"].flatMap((folder) => [...sources(folder)]);
  assertEquals(files.flatMap(questions), []);
  const comment = (line: string): string => ["/*", line, "/"].join("* ");
  const asking = ["What it is.", "\n   * Whether it is.", "Whatever."].map(comment);
  assertEquals(questions({ path: "a.ts", text: asking.join("\n") }), [
    "a.ts: What it is.* /",
    "a.ts: Whether it is.* /",
  ]);
});

/** Lines of doc comments that Markdown takes for an entry of a list: a formula that goes on with `*`. */
function brokenFormulas({ path, text }: File): string[] {
  const docs = text.match(/\/\*\*[\s\S]*?\*\//g) ?? [];
  return docs.join("\n").split("\n").filter((line) => /^\s*\* [*+] /.test(line))
    .map((line) => `${path}: ${line.trim()}`);
}

Deno.test("no formula in a doc comment has a line that begins as an entry of a list", () => {
  assertEquals(folders.flatMap((folder) => [...sources(folder)]).flatMap(brokenFormulas), []);
  const text = ["/** `a", "b` */"].join("\n * * ");
  assertEquals(brokenFormulas({ path: "a.ts", text }), ["a.ts: * * b` */"]);
});

/** The symbols that a source exports; null where none of them has the name of the file. */
function symbolsOf({ path, text }: File): string[] | null {
  const declared =
    /^export (?:abstract |async )*(?:class|function\*?|const|interface|type|let) (\w+)/gm;
  const names = [...text.matchAll(declared)].map(([, name]) => name!);
  const own = path.split("/").at(-1)!.replace(".ts", "").replaceAll("_", "").toLowerCase();
  return names.some((name) => name.toLowerCase() === own) ? names : null;
}

/** Names of tests that begin with none of the symbols. */
function nameless({ path, text }: File, symbols: readonly string[]): string[] {
  const called = /(?:Deno\.test|\btest\w+)\(\s*(?:\{\s*name: )?"((?:[^"\\]|\\.)*)"/g;
  const begins = new RegExp(`^(?:an? |the )?(?:${symbols.join("|")})\\b`);
  return [...text.matchAll(called)].map(([, name]) => name!).filter((name) => !begins.test(name))
    .map((name) => `${path}: ${name}`);
}

Deno.test("the tests of a symbol's file begin with the symbol that they hold", () => {
  const files = folders.flatMap((folder) => [...sources(folder)]);
  const tests = new Map([...sources("tests")].map((file) => [file.path, file]));
  let count = 0;
  const wrong = files.flatMap((file) => {
    const symbols = symbolsOf(file),
      test = tests.get(`tests/${file.path.replace(".ts", "_test.ts")}`);
    if (!symbols || !test) return [];
    count++;
    return nameless(test, symbols);
  });
  assertEquals(wrong, []);
  assertEquals(count > 50, true);
  const file = { path: "a/the_pool.ts", text: "export class ThePool {}\nexport const size = 1;" };
  const test = { path: "t.ts", text: 'Deno.test("a ThePool is", () => {});\ntestX("it is", f);' };
  assertEquals(nameless(test, symbolsOf(file)!), ["t.ts: it is"]);
  assertEquals(symbolsOf({ path: "a/b.ts", text: file.text }), null);
});
