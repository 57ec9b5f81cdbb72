/**
 * The examples in doc comments and pages, as tests in one module. `deno test --doc` makes a worker for
 * each, which loads the whole library again: 0.25 seconds of 0.3. Their types are checked by
 * `deno check --doc`.
 */
import { root } from "../module_graph.ts";
import { inFolder } from "../temporary_folder.ts";
import { pathToFileURL } from "node:url";

/** An example, and where it stands. */
export interface Snippet {
  /** "tensor/mod.ts:12": the file from the root of the package, and the line of the first statement. */
  readonly place: string;
  readonly code: string;
}

/** The doc comments of a module, each with as many lines as it has there; all else is left empty. */
function commentsOf(text: string): string {
  const comments = [...text.matchAll(/\/\*\*[\s\S]*?\*\//g)];
  const lines: string[] = text.split("\n").map(() => "");
  for (const { index, 0: comment } of comments) {
    const first = text.slice(0, index).split("\n").length - 1;
    comment.split("\n").forEach((line, k) => {
      lines[first + k] = line.replace(/^\s*(\/\*\*|\*\/|\*) ?/, "");
    });
  }
  return lines.join("\n");
}

/** The examples of a page, or of a module's doc comments. */
export function snippetsOf(path: string, text: string): Snippet[] {
  const page = path.endsWith(".md") ? text : commentsOf(text);
  return [...page.matchAll(/^```ts\n([\s\S]*?)^```$/gm)].map(({ index, 1: code }) => ({
    place: `${path}:${page.slice(0, index).split("\n").length + 1}`,
    code: code!,
  }));
}

/** An import as a statement of a function; names that are types only are undefined there, and erased. */
export function localImport(statement: string): string {
  const [, names, from] = /^import\s+(?:([\s\S]+?)\s+from\s+)?"([^"]+)";$/.exec(statement)!;
  const module = `await import(${JSON.stringify(import.meta.resolve(from!))})`;
  if (names === undefined) return `${module};`;
  if (names.startsWith("type ")) return "";
  if (names.startsWith("*")) return `const ${names.replace(/^\*\s+as\s+/, "")} = ${module};`;
  return `const ${names.replace(/\btype\s+/g, "").replace(/\s+as\s+/g, ": ")} = ${module};`;
}

/** A test of an example: a function, with its imports as statements. */
function testOf({ place, code }: Snippet): string {
  const body = code.replace(/^import\s[^;]*;$/gm, localImport);
  // An example is a whole program, which opens a device and leaves it to the end of the process.
  const options = { name: place, sanitizeOps: false, sanitizeResources: false };
  return `Deno.test(${JSON.stringify(options)}, async () => {\n${body}\n});\n`;
}

/** All files below a folder, or the file itself, whose examples are tested. */
function filesBelow(path: string): string[] {
  if (/\.(ts|md)$/.test(path)) return [path];
  return [...Deno.readDirSync(new URL(path, root))]
    .filter(({ name, isDirectory }) => isDirectory || /\.(ts|md)$/.test(name))
    .flatMap(({ name }) => filesBelow(`${path}/${name}`)).sort();
}

/** Makes a test of every example in files and folders, given as paths from the root of the package. */
export async function testSnippets(paths: readonly string[], ignore: boolean): Promise<void> {
  const snippets = paths.flatMap(filesBelow)
    .flatMap((path) => snippetsOf(path, Deno.readTextFileSync(new URL(path, root))));
  if (snippets.length === 0) throw new Error(`There is no example in ${paths.join(", ")}`);
  if (ignore) {
    for (const { place } of snippets) Deno.test(place, { ignore }, () => {});
    return;
  }
  // An assertion of the console only prints by itself.
  console.assert = (condition?: unknown, ...message: unknown[]): void => {
    if (!condition) throw new Error(`An example's console.assert failed ${message.join(" ")}`);
  };
  await inFolder(async (folder) => {
    const file = `${folder}/snippets.ts`;
    await Deno.writeTextFile(file, snippets.map(testOf).join("\n"));
    await import(pathToFileURL(file).href);
  });
}
