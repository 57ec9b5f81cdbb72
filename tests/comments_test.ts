/** Comments that send the reader to another file name one that exists. */
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
