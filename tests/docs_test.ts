// Suite: no device; reads pages.
import { assert, assertEquals } from "@std/assert";
import { environmentVariables } from "../ffi/host/environment.ts";
import { entryPoints, root } from "./module_graph.ts";
import { exists } from "./machine.ts";
import { markdownTable } from "./signals/matrix.ts";
import { runDeno } from "./run_deno.ts";

const guide = "examples/guide";
const devices = await Deno.readTextFile(new URL(`${guide}/devices.md`, root));

/** The pages for people, as paths from the root of the package. */
const pages = [
  ...["README.md", "CHANGELOG.md", "SECURITY.md", "examples/README.md", "examples/data/README.md"],
  ...["CONTRIBUTING.md", "ARCHITECTURE.md"],
  ...[...Deno.readDirSync(new URL(guide, root))]
    .filter(({ name }) => name.endsWith(".md")).map(({ name }) => `${guide}/${name}`),
];

Deno.test("every exported symbol is documented, and no private type shows", async () => {
  const { success, err } = await runDeno(["doc", "--lint", ...await entryPoints()], { cwd: root });
  assert(success, err);
});

/** The rows of the table under a heading of the page about devices, cell by cell. */
function table(heading: string): string[][] {
  const section = devices.split(/^## /m).find((part) => part.startsWith(heading));
  assert(section !== undefined, `The page has no heading "${heading}"`);
  const rows = section.split("\n").filter((line) => line.startsWith("|")).slice(2);
  assert(rows.length > 0, `There is no table under "${heading}"`);
  return rows.map((row) => row.split("|").slice(1, -1).map((cell) => cell.trim()));
}

Deno.test("the guide's environment variables are those of the code", () => {
  const expected = Object.entries(environmentVariables).map(([name, variable]) => [
    `\`${name}\``,
    variable.values,
    variable.default,
    variable.description,
  ]);
  const rows = expected.map((cells) => `| ${cells.join(" | ")} |`).join("\n");
  assertEquals(table("Environment variables"), expected, `The table should be:\n${rows}\n`);
});

Deno.test("the package that is published holds what users need and nothing else", async () => {
  const args = ["publish", "--dry-run", "--allow-dirty", "--no-check"];
  const { success, err: listing } = await runDeno(args, { cwd: root });
  assert(success, listing);
  const files = [...listing.matchAll(/file:\/\/(\S+)/g)].map(([, path]) =>
    path!.replace(root.pathname, "")
  );
  const isWanted = (path: string) =>
    /^(LICENSE|README\.md|deno\.json|mod\.ts|(ffi|memory|backend|tensor)\/[\w/]+\.ts)$/.test(path);
  assertEquals(files.filter((path) => !isWanted(path)), []);
  for (const path of ["LICENSE", "README.md", ...await entryPoints()]) {
    assert(files.includes(path), `${path} is published`);
  }
});

Deno.test("the guide's table of endings is the one that the signal tests hold", () => {
  const plain = (row: string): string => row.split("|").map((cell) => cell.trim()).join("|");
  const known = new Set(devices.split("\n").map(plain));
  const rows = markdownTable().split("\n").filter((row) => !row.includes("---"));
  assertEquals(rows.filter((row) => !known.has(plain(row))), []);
});

/** The anchors of a page's headings, as GitHub makes them. */
function anchors(text: string): Set<string> {
  const headings = [...text.matchAll(/^#+ (.*)$/gm)].map(([, heading]) => heading!);
  return new Set(
    headings.map((heading) =>
      heading.toLowerCase().replace(/[^\p{L}\p{N} _-]/gu, "").replaceAll(" ", "-")
    ),
  );
}

/** Links of a page that lead nowhere in this repository. */
function broken(page: string, text: string): string[] {
  const links = [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, link]) => link!);
  return links.filter((link) => {
    if (/^[a-z]+:/.test(link)) return false;
    const target = new URL(link, new URL(page, root)), { hash } = target;
    target.hash = "";
    try {
      const read = hash === "" ? Deno.statSync(target) && "" : Deno.readTextFileSync(target);
      return hash !== "" && !anchors(read).has(decodeURIComponent(hash.slice(1)));
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return true;
      throw error;
    }
  }).map((link) => `${page}: ${link}`);
}

Deno.test("every link of a page to another one leads somewhere", async () => {
  const texts = await Promise.all(
    pages.map(async (page) => [page, await Deno.readTextFile(new URL(page, root))] as const),
  );
  assertEquals(texts.flatMap(([page, text]) => broken(page, text)), []);
  assertEquals(broken("README.md", "[a](nowhere.md) [b](mod.ts) [c](README.md#no-such-part)"), [
    "README.md: nowhere.md",
    "README.md: README.md#no-such-part",
  ]);
});

/** Files and folders of the code that a page names in backticks or as the head of a diff, and that do not exist. */
function missing(page: string, text: string): string[] {
  const code =
    /`((?:ffi|memory|backend|tensor|tests|bench|examples)\/[\w./-]*|mod\.ts|deno\.json)`/g;
  const present = text.replaceAll(/^\+.*$/gm, ""); // what a recipe's diff adds is not there yet
  const named = [...present.matchAll(code), ...present.matchAll(/^--- (\S+)$/gm)];
  return named.map(([, path]) => path!).filter((path) => !exists(new URL(path, root)))
    .map((path) => `${page}: ${path}`);
}

Deno.test("every file and folder that a page names exists", async () => {
  // The change log tells of files as they were.
  const texts = await Promise.all(
    pages.filter((page) => page !== "CHANGELOG.md")
      .map(async (page) => [page, await Deno.readTextFile(new URL(page, root))] as const),
  );
  assertEquals(texts.flatMap(([page, text]) => missing(page, text)), []);
  for (const page of ["CONTRIBUTING.md", "ARCHITECTURE.md"]) {
    const text = texts.find(([name]) => name === page)![1];
    assert(text.split(/`[\w/]+\.ts`/).length > 30, `${page} names files`);
  }
  assertEquals(
    missing(
      "a.md",
      "`ffi/mod.ts` `ffi/gone.ts` `memory/gone` `tensor/nn`\n--- backend/gone.ts\n+`ffi/new`\n",
    ),
    ["a.md: ffi/gone.ts", "a.md: memory/gone", "a.md: backend/gone.ts"],
  );
});

Deno.test("ARCHITECTURE.md names every folder of the layers", async () => {
  const text = await Deno.readTextFile(new URL("ARCHITECTURE.md", root));
  const folders = ["ffi", "memory", "backend", "tensor"].flatMap((layer) =>
    [...Deno.readDirSync(new URL(layer, root))].filter(({ isDirectory }) => isDirectory)
      .map(({ name }) => `${layer}/${name}`)
  );
  assert(folders.length > 30);
  assertEquals(folders.filter((folder) => !text.includes(`\`${folder}\``)), []);
});

Deno.test("the README is one that people read to its end", async () => {
  const lines = (await Deno.readTextFile(new URL("README.md", root))).split("\n");
  assert(lines.length <= 150, `it has ${lines.length} lines`);
});

/** One symbol in the words of `deno doc --json`. */
interface Documented {
  readonly name: string;
  readonly declarations: readonly { readonly kind: string; readonly jsDoc?: { doc?: string } }[];
}

async function documented(entry: string): Promise<Documented[]> {
  const { out } = await runDeno(["doc", "--json", new URL(entry, root).href], { cwd: root });
  const { nodes } = JSON.parse(out);
  const [{ symbols }] = Object.values(nodes) as [{ symbols: Documented[] }];
  return symbols;
}

Deno.test("nn, optim and amp have pages of their own that list all that they export, with words", async () => {
  for (const name of ["nn", "optim", "amp"]) {
    const entry = `tensor/${name}/mod.ts`;
    const symbols = await documented(entry);
    const values = Object.keys(await import(new URL(entry, root).href));
    const listed = new Set(symbols.map((symbol) => symbol.name));
    assertEquals(values.filter((value) => !listed.has(value)), [], entry);
    const silent = symbols.filter(({ declarations }) =>
      !declarations.some(({ jsDoc }) => jsDoc?.doc !== undefined && jsDoc.doc.trim() !== "")
    );
    assertEquals(silent.map((symbol) => symbol.name), [], `${entry}: no words`);
  }
});

Deno.test("the page of layers names every layer, loss and function of nn", async () => {
  const text = await Deno.readTextFile(new URL("examples/guide/layers.md", root));
  const nn: Record<string, unknown> = await import(new URL("tensor/nn/mod.ts", root).href);
  const named = new Set(text.match(/(?<=`)\w+(?=`)/g));
  const missing = Object.keys(nn).filter((name) => !named.has(name));
  assertEquals(missing, []);
});

Deno.test("the root names nothing that hides a global of JavaScript, but for OpenCL's Buffer", async () => {
  const names = (await documented("mod.ts")).map(({ name }) => name);
  assertEquals(names.filter((name) => Object.hasOwn(globalThis, name)), ["Buffer"]);
});
