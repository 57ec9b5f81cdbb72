/** The recipes of CONTRIBUTING.md, followed in a copy of the tree: what they say is what works. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { hasOpenCL } from "./opencl.ts";
import { root } from "./module_graph.ts";
import { plain } from "./plain.ts";
import { inFolder } from "./temporary_folder.ts";

/** A file that a recipe changes, or makes. */
interface Edit {
  readonly path: string;
  readonly isNew: boolean;
  /** What is found once in the file, and what takes its place. */
  readonly places: readonly { readonly before: string; readonly after: string }[];
}

/** The diffs below a heading of the page, in their order. */
function editsOf(page: string, heading: string): Edit[] {
  const section = page.split(/^## /m).find((part) => part.startsWith(`${heading}\n`));
  assert(section !== undefined, `CONTRIBUTING.md has no part "${heading}"`);
  return [...section.matchAll(/^```diff\n([\s\S]*?)^```$/gm)].map(([, text]) => edit(text!));
}

/** Reads a diff: `---` names a file that is there, `+++` a new one, and `@@` parts two places. */
function edit(text: string): Edit {
  const [head, ...lines] = text.trimEnd().split("\n");
  const [, sign, path] = /^(---|\+\+\+) (\S+)$/.exec(head!) ?? [];
  assert(path !== undefined, `A diff begins with "${head}", which names no file`);
  const places = lines.join("\n").split(/^@@$\n/m).map((place) => ({
    before: side(place, "-"),
    after: side(place, "+"),
  }));
  return { path, isNew: sign === "+++", places };
}

/** The lines of a diff that one side has, without their signs. */
function side(place: string, sign: "-" | "+"): string {
  return place.split("\n").filter((line) => line === "" || line[0] === " " || line[0] === sign)
    .map((line) => line.slice(1)).join("\n").trimEnd() + "\n";
}

/** The text of a file after an edit. */
function edited({ path, places }: Edit, text: string): string {
  return places.reduce((result, { before, after }) => {
    const found = `\n${before}`, at = result.indexOf(found), last = result.lastIndexOf(found);
    assert(at >= 0, `${path} has nowhere:\n${before}`);
    assertEquals(at, last, `${path} has more than once:\n${before}`);
    return `${result.slice(0, at)}\n${after}${result.slice(at + found.length)}`;
  }, text);
}

function toFileUrl(folder: string): URL {
  return new URL(`${encodeURI(folder)}/`, "file:///");
}

async function copyInto(folder: URL, path: string): Promise<void> {
  const from = new URL(path, root), to = new URL(path, folder);
  if (!(await Deno.stat(from)).isDirectory) {
    await Deno.mkdir(new URL(".", to), { recursive: true });
    return await Deno.copyFile(from, to);
  }
  for await (const { name } of Deno.readDir(from)) await copyInto(folder, `${path}/${name}`);
}

async function follow(folder: URL, edits: readonly Edit[]): Promise<void> {
  for (const edit of edits) {
    const file = new URL(edit.path, folder);
    if (edit.isNew) {
      await Deno.mkdir(new URL(".", file), { recursive: true });
      await Deno.writeTextFile(file, edit.places[0]!.after, { createNew: true });
    } else {
      await Deno.writeTextFile(file, edited(edit, await Deno.readTextFile(file)));
    }
  }
}

/** Holds the new operation: by itself and inside a larger kernel, of vectors too, with its gradient. */
const programOfCubeRoot = `
import { assertAlmostEquals, assertEquals } from "@std/assert";
import { Tensor, withDevice } from "./mod.ts";
import { testOnBackends } from "./tests/opencl.ts";

testOnBackends("cbrt: values and gradients", (backend) => withDevice(backend, async () => {
  const roots = Array.from({ length: 40 }, (_, k) => k % 2 ? k / 4 : -k / 4 - 1);
  const x = Tensor.fromHost(roots.map((root) => root ** 3), { requiresGrad: true });
  const y = x.cbrt(), z = y.mul(2).add(1);
  z.sum().backward();
  const [found, gradient] = [await z.toNumbers(), await x.grad!.toNumbers()];
  assertEquals(found.length, roots.length);
  roots.forEach((root, k) => {
    assertAlmostEquals(found[k]!, 2 * root + 1, 1e-5);
    assertAlmostEquals(gradient[k]!, 2 / (3 * root * root), 1e-5 * (1 + 1 / (root * root)));
  });
  assertEquals((await Tensor.fromHost([8, 27]).cast("int32").cbrt().round().toNumbers()).join(), "2,3");
}));
`;

Deno.test("the recipes of a unary operation and of a layer work as the page says", async () => {
  const page = await Deno.readTextFile(new URL("CONTRIBUTING.md", root));
  const operation = editsOf(page, "Add a unary operation"), layer = editsOf(page, "Add a layer");
  assert(operation.length > 0 && layer.length > 0);
  await inFolder(async (path) => {
    const folder = toFileUrl(path), edits = [...operation, ...layer];
    const layers = ["ffi", "memory", "backend", "tensor", "mod.ts", "deno.json"];
    const edited = edits.filter((edit) => !edit.isNew).map((edit) => edit.path);
    const tests = ["tests/std", "tests/opencl.ts", ...edited.filter((p) => p.startsWith("tests/"))];
    for (const needed of [...layers, ...tests]) await copyInto(folder, needed);
    const made = edits.filter((edit) => edit.isNew).map((edit) => edit.path);
    await follow(folder, edits);
    await Deno.writeTextFile(new URL("cube_root_test.ts", folder), programOfCubeRoot);
    const files = ["cube_root_test.ts", ...made.filter((file) => file.endsWith("_test.ts"))];
    const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["test", "-A", "--check", "--no-lock", ...files],
      cwd: folder,
      env: plain,
    }).output();
    const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
    assert(success, printed);
    assert(printed.includes(hasOpenCL ? "4 passed" : "2 passed"), printed);
  });
});

Deno.test("a recipe that no longer fits is seen", () => {
  const diff = "--- a.ts\n one\n-two\n+2\n@@\n three\n+four\n";
  assertEquals(edited(edit(diff), "\none\ntwo\nthree\n"), "\none\n2\nthree\nfour\n");
  assertThrows(() => edited(edit(diff), "\none\nzwei\nthree\n"), Error, "nowhere");
  assertThrows(() => edited(edit(diff), "\none\ntwo\none\ntwo\nthree\n"), Error, "more than once");
  assertThrows(() => edit("a.ts\n+one\n"), Error, "names no file");
  assertThrows(() => editsOf("## Add a pool\n", "Add a layer"), Error, "no part");
});
