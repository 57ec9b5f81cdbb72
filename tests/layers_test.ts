// Suite: no device; reads sources.
import { assert, assertEquals } from "@std/assert";
import { fileURLToPath } from "node:url";
import { exists, works } from "./machine.ts";
import { entryPoints, type Import, importsOf, root } from "./module_graph.ts";
import { runDeno, runProgram } from "./run_deno.ts";

/** From the foundation up; a module imports from its own layer and those before it. */
const layers = ["ffi", "memory", "backend", "tensor", "mod.ts"];

function layerOf(path: string): number {
  return layers.indexOf(path.split("/")[0]!);
}

/**
 * The packages that the entry point of models needs, where they may be imported: well kept, and without
 * dependencies of their own. The versions are exact.
 */
const packages = ["npm:@huggingface/jinja@0.5.11", "npm:@huggingface/tokenizers@0.2.0"];
const packageFolder = "tensor/models/text/";

/** The rule that an import breaks, or null. */
function fault({ from, to }: Pick<Import, "from" | "to">): string | null {
  if (to.startsWith("node:")) return null;
  if (from.startsWith(packageFolder) && packages.includes(to)) return null;
  if (layerOf(to) < 0) return "published modules import no package and no file outside the layers";
  return layerOf(to) > layerOf(from) ? "an arrow goes down only" : null;
}

const entries = await entryPoints();
const importsBy = new Map(
  await Promise.all(entries.map(async (entry) => [entry, await importsOf(entry)] as const)),
);
const imports = [...importsBy.values()].flat();

Deno.test("no published module imports a higher layer, a package or a file outside the layers", () => {
  const faults = imports.flatMap((edge) => {
    const what = fault(edge);
    return what === null ? [] : [`${edge.from} imports ${edge.to}: ${what}`];
  });
  assertEquals(faults, []);
});

Deno.test("only the entry point of models imports packages: those that are named here", () => {
  const isPackage = ({ to }: Import) => /^(npm|jsr|https?):/.test(to);
  const users = entries.filter((entry) => importsBy.get(entry)!.some(isPackage));
  assertEquals(users, ["tensor/models/mod.ts"]);
  assertEquals([...new Set(imports.filter(isPackage).map(({ to }) => to))].sort(), packages);
});

Deno.test("deno.lock has no package that nobody imports: one stops a run offline", async () => {
  const json = async (name: string) => JSON.parse(await Deno.readTextFile(new URL(name, root)));
  const [lock, config] = [await json("deno.lock"), await json("deno.json")];
  const named = Object.values<string>(config.imports).filter((to) => to.startsWith("npm:"));
  const known = [...packages, ...named];
  assertEquals(Object.keys(lock.specifiers).filter((name) => !known.includes(name)), []);
});

Deno.test("the check of the layers sees what it is there for", () => {
  assert(imports.some(({ from, to }) => from === "mod.ts" && to.startsWith("tensor/")));
  for (const [upper, lower] of [["tensor", "backend"], ["backend", "memory"], ["memory", "ffi"]]) {
    const crosses = ({ from, to }: Import) =>
      from.startsWith(`${upper}/`) && to.startsWith(`${lower}/`);
    assert(imports.some(crosses), `${upper} imports ${lower}`);
  }
  assert(fault({ from: "memory/a.ts", to: "backend/b.ts" }) !== null);
  assert(fault({ from: "ffi/a.ts", to: "mod.ts" }) !== null);
  assert(fault({ from: "tensor/a.ts", to: "jsr:@std/assert" }) !== null);
  assert(fault({ from: "tensor/a.ts", to: packages[0]! }) !== null);
  assert(fault({ from: `${packageFolder}a.ts`, to: "npm:@huggingface/jinja@^0.5.11" }) !== null);
  assertEquals(fault({ from: `${packageFolder}a.ts`, to: packages[0]! }), null);
  assert(fault({ from: "tensor/a.ts", to: "tests/opencl.ts" }) !== null);
  assertEquals(fault({ from: "tensor/a.ts", to: "ffi/b.ts" }), null);
});

/** The entries of the root: anything else is a test's or a tool's, and has its place in a folder of its own. */
const inRoot = [
  ".ci",
  ".github",
  ".gitignore",
  "ARCHITECTURE.md",
  "CHANGELOG.md",
  "CONTRIBUTING.md",
  "LICENSE",
  "README.md",
  "SECURITY.md",
  "backend",
  "bench",
  "deno.json",
  "deno.lock",
  "examples",
  "ffi",
  "memory",
  "mod.ts",
  "tensor",
  "tests",
];

Deno.test("the root holds what is named here", { ignore: !isCheckout() }, async () => {
  const names = (await git("ls-files")).trimEnd().split("\n").map((path) => path.split("/")[0]!);
  assertEquals([...new Set(names)].sort(), inRoot);
});

async function git(...args: readonly string[]): Promise<string> {
  const safe = ["-c", `safe.directory=${fileURLToPath(root).replace(/\/$/, "")}`];
  const { stdout } = await new Deno.Command("git", { args: [...safe, ...args], cwd: root })
    .output();
  return new TextDecoder().decode(stdout);
}

/** False in a copy without its history, and where there is no git. */
function isCheckout(): boolean {
  return exists(new URL(".git", root)) && works("git", "--version");
}

/** The groups of nodes that reach each other, by Tarjan's algorithm; a node alone is none. */
function circles(edges: readonly (readonly [string, string])[]): string[][] {
  const next = new Map<string, string[]>();
  for (const [from, to] of edges) if (from !== to) (next.get(from) ?? add(next, from)).push(to);
  const index = new Map<string, number>(), low = new Map<string, number>();
  const stack: string[] = [], found: string[][] = [];
  const visit = (node: string): void => {
    index.set(node, index.size);
    low.set(node, index.get(node)!);
    stack.push(node);
    for (const to of next.get(node) ?? []) {
      if (!index.has(to)) visit(to);
      else if (!stack.includes(to)) continue;
      low.set(node, Math.min(low.get(node)!, low.get(to)!));
    }
    if (low.get(node) !== index.get(node)) return;
    const group = stack.splice(stack.indexOf(node));
    if (group.length > 1) found.push(group.sort());
  };
  for (const node of next.keys()) if (!index.has(node)) visit(node);
  return found;
}

function add(next: Map<string, string[]>, node: string): string[] {
  const targets: string[] = [];
  next.set(node, targets);
  return targets;
}

const folderOf = (path: string): string => path.slice(0, path.lastIndexOf("/") + 1);

/** The one import that goes up: the class stands above operations, which call its methods and make tensors. */
const upward = ["tensor/core/mod.ts", "tensor/class/tensor.ts"] as const;

/** The published imports but for {@linkcode upward}: between files, or between the folders that they lie in. */
function edges(options: { types: boolean; folders: boolean }): (readonly [string, string])[] {
  const end = (path: string) => options.folders ? folderOf(path) : path;
  return imports
    .filter(({ to }) => layerOf(to) >= 0)
    .filter(({ typeOnly }) => options.types || !typeOnly)
    .filter(({ from, to, typeOnly }) => !(typeOnly && from === upward[0] && to === upward[1]))
    .map(({ from, to }) => [end(from), end(to)]);
}

Deno.test("no folders import each other in a circle, and no files do at run time", () => {
  assertEquals(circles(edges({ types: false, folders: false })), [], "files at run time");
  assertEquals(circles(edges({ types: false, folders: true })), [], "folders at run time");
  assertEquals(circles(edges({ types: true, folders: true })), [], "folders, types too");
  const below = edges({ types: true, folders: false }).filter(([from]) =>
    !from.startsWith("tensor/")
  );
  assertEquals(circles(below), [], "files below the tensor layer, types too");
});

Deno.test("the check of circles sees what it is there for", () => {
  const chain = [["a", "b"], ["b", "c"], ["a", "c"], ["d", "d"]] as const;
  assertEquals(circles(chain), []);
  assertEquals(circles([...chain, ["c", "a"]]), [["a", "b", "c"]]);
  assertEquals(circles([["x", "y"], ["y", "x"], ["y", "p"], ["p", "q"], ["q", "p"]]), [
    ["p", "q"],
    ["x", "y"],
  ]);
});

Deno.test("one import goes up: the type of tensors, for operations that are below their class", () => {
  const users = imports.filter(({ to }) => to === upward[1]);
  const [below, above] = [true, false].map((is) =>
    users.filter(({ from }) => (from === upward[0]) === is)
  ) as [Import[], Import[]];
  assert(below.length > 0 && below.every(({ typeOnly }) => typeOnly));
  // No circle at run time says that none of these is below the class.
  assert(above.length > 50, `${above.length} modules make tensors by the class`);
});

Deno.test("what an entry point gives makes tensors, whichever is imported alone", async () => {
  const uses: Readonly<Record<string, string>> = {
    "tensor/nn/mod.ts": "new m.Linear(2, 3).parameters().length",
    "tensor/optim/mod.ts":
      "new m.SGD(new (await load('tensor/nn/layers/linear.ts')).Linear(2, 3).parameters()).lr",
    "tensor/amp/mod.ts": "await new m.GradScaler().currentScale()",
    "tensor/models/mod.ts": `await m.loadNpz(${
      JSON.stringify(fileURLToPath(new URL("tests/tensor/io/fixtures/stored.npz", root)))
    })`,
  };
  for (const [path, use] of Object.entries(uses)) {
    const script = `
      const load = (path) => import(new URL(path, ${JSON.stringify(root.href)}));
      const m = await load(${JSON.stringify(path)});
      ${use};
    `;
    const { success, err } = await runProgram(script, { cwd: root, env: { NETCL_DEVICE: "cpu" } });
    assert(success, `${path}: ${err}`);
  }
});

interface Source {
  /** From the root. */
  readonly path: string;
  readonly text: string;
}

function* sourcesIn(folder: string): Generator<Source> {
  for (const { name, isDirectory } of Deno.readDirSync(new URL(folder, root))) {
    const path = `${folder}/${name}`;
    if (isDirectory) yield* sourcesIn(path);
    else if (name.endsWith(".ts")) yield { path, text: Deno.readTextFileSync(new URL(path, root)) };
  }
}

const MAX_FILES = 15, MAX_LINES = 400;

/** The comment that a file begins with. */
function headerOf({ text }: Source): string {
  return /^\/\*\*[\s\S]*?\*\//.exec(text)?.[0].replace(/\n \* ?/g, " ") ?? "";
}

/** Folders that are too large, and files: folders, and files whose header does not say "long because". */
function tooLarge(sources: readonly Source[]): string[] {
  const folders = Map.groupBy(sources, ({ path }) => folderOf(path));
  const crowded = [...folders].filter(([, files]) => files.length > MAX_FILES);
  const long = sources.filter((source) =>
    source.text.split("\n").length - 1 > MAX_LINES && !/\blong because\b/.test(headerOf(source))
  );
  return [
    ...crowded.map(([folder, files]) => `${folder}: ${files.length} files`),
    ...long.map(({ path }) => `${path}: too long, without a reason in its header`),
  ];
}

/** Folders none of whose files says in its header what lives there and what it imports. */
function nameless(sources: readonly Source[]): string[] {
  const folders = Map.groupBy(sources, ({ path }) => folderOf(path));
  const says = (source: Source) => /\bimports?\b/i.test(headerOf(source));
  return [...folders].filter(([, files]) => !files.some(says)).map(([folder]) => folder);
}

const published = layers.slice(0, -1).flatMap((layer) => [...sourcesIn(layer)]);

Deno.test("every folder says what it imports, and can be overlooked; long files say why they are", () => {
  assertEquals(nameless(published), []);
  const others = ["tests", "bench", "examples"].flatMap((folder) => [...sourcesIn(folder)]);
  assertEquals(tooLarge([...published, ...others]), []);
});

Deno.test("the check of sizes and headers sees what it is there for", () => {
  const file = (path: string, lines: number, header = "") => ({
    path,
    text: `/** ${header} */\n${"x\n".repeat(lines - 1)}`,
  });
  const many = Array.from({ length: 16 }, (_, k) => file(`a/${k}.ts`, 1));
  assertEquals(tooLarge(many), ["a/: 16 files"]);
  assertEquals(tooLarge(many.slice(1)), []);
  assertEquals(tooLarge([file("b.ts", 400), file("c.ts", 401, "It is long\n * because.")]), []);
  assertEquals(tooLarge([file("d.ts", 401)]).length, 1);
  assertEquals(nameless([file("e/f.ts", 2, "This folder imports nothing."), ...many]), ["a/"]);
});

Deno.test("the tensor layer knows the backend, never OpenCL", () => {
  // Left to it are the types of what users hand over, and what all layers share: an error, the
  // runtime, the check of options.
  const openCL = imports.filter(({ from, to, typeOnly }) =>
    from.startsWith("tensor/") && to.startsWith("ffi/") && !typeOnly
  );
  assertEquals(
    new Set(openCL.map(({ from }) => from)),
    new Set(["errors", "host", "options"].map((name) => `tensor/core/rules/${name}.ts`)),
  );
});

/** Lines of code that name members of Deno, as "path: line". */
function namesDeno(sources: readonly Source[]): string[] {
  return sources.flatMap(({ path, text }) =>
    text.split("\n")
      .filter((line) => /\bDeno\./.test(line) && !/^\s*(\*|\/\/|\/\*)/.test(line))
      .map((line) => `${path}: ${line.trim()}`)
  );
}

Deno.test("no published module names Deno but the one for Deno: there are other runtimes", () => {
  const others = published.filter(({ path }) => path !== "ffi/runtime/deno.ts");
  assertEquals(namesDeno(others), []);
  assert(namesDeno(published).length > 50);
  const comment = { path: "a.ts", text: " * Deno.dlopen\n// Deno.exit\n" };
  const code = { path: "b.ts", text: "  const pid = Deno.pid;" };
  assertEquals(namesDeno([comment, code]), ["b.ts: const pid = Deno.pid;"]);
});

Deno.test("importing the package does nothing: no library, no listener, no worker, no print", async () => {
  const entries = (await entryPoints()).map((path) => new URL(path, root).href);
  const script = `
    const refuse = (what) => () => { throw new Error(what + " at import"); };
    Deno.dlopen = refuse("dlopen");
    Deno.addSignalListener = refuse("a signal listener");
    globalThis.addEventListener = refuse("an event listener");
    globalThis.Worker = refuse("a worker");
    globalThis.setInterval = globalThis.setTimeout = refuse("a timer");
    for (const entry of ${JSON.stringify(entries)}) await import(entry);
  `;
  // In a project of its own, which imports the checkout by its path: Deno warns of what does not suit
  // that. No permission but to read the modules, which dynamic imports need.
  const project = await Deno.makeTempDir(), file = `${project}/main.js`;
  const imports = { "@netcl/netcl": new URL("mod.ts", root).href };
  await Deno.writeTextFile(`${project}/deno.json`, JSON.stringify({ imports }));
  await Deno.writeTextFile(file, script);
  const args = ["run", "--no-check", "--no-prompt", "--allow-read", file];
  const { success, out, err } = await runDeno(args, { cwd: project });
  await Deno.remove(project, { recursive: true });
  assertEquals(out + err, "");
  assert(success);
});
