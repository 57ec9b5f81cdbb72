import { assert, assertEquals } from "@std/assert";
import { entryPoints, type Import, importsOf, root } from "./module_graph.ts";
import { plain } from "./plain.ts";

/** From the foundation up; a module imports from its own layer and those before it. */
const layers = ["ffi", "memory", "backend", "tensor", "mod.ts"];

function layerOf(path: string): number {
  return layers.indexOf(path.split("/")[0]!);
}

/** What an import breaks, or null. */
function fault({ from, to }: Pick<Import, "from" | "to">): string | null {
  if (to.startsWith("node:")) return null;
  if (layerOf(to) < 0) return "published modules import no package and no file outside the layers";
  return layerOf(to) > layerOf(from) ? "an arrow goes down only" : null;
}

const imports = (await Promise.all((await entryPoints()).map(importsOf))).flat();

Deno.test("no published module imports a higher layer, a package or a file outside the layers", () => {
  const faults = imports.flatMap((edge) => {
    const what = fault(edge);
    return what === null ? [] : [`${edge.from} imports ${edge.to}: ${what}`];
  });
  assertEquals(faults, []);
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
  assert(fault({ from: "tensor/a.ts", to: "tests/opencl.ts" }) !== null);
  assertEquals(fault({ from: "tensor/a.ts", to: "ffi/b.ts" }), null);
});

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

/** The imports within some layers: as files, or as the folders that they lie in. */
function edgesWithin(
  layers: readonly string[],
  options: { types: boolean; folders: boolean },
  among: readonly Import[] = imports,
): (readonly [string, string])[] {
  const inside = (path: string) => layers.includes(path.split("/")[0]!);
  const end = (path: string) => options.folders ? folderOf(path) : path;
  return among
    .filter(({ from, to, typeOnly }) => inside(from) && inside(to) && (options.types || !typeOnly))
    .map(({ from, to }) => [end(from), end(to)]);
}

Deno.test("no folders import each other in a circle, and no files do at run time", () => {
  const all = ["ffi", "memory", "backend", "tensor"];
  const runTime = { types: false, folders: false };
  assertEquals(circles(edgesWithin(all, runTime)), [], "files at run time");
  assertEquals(circles(edgesWithin(all, { ...runTime, folders: true })), [], "folders");
  const withTypes = { types: true, folders: true };
  assertEquals(circles(edgesWithin(["ffi", "memory"], withTypes)), [], "folders, types too");
  // Everything in the layer knows the class Tensor as a type.
  const others = imports.filter(({ to }) => to !== "tensor/tensor.ts");
  assertEquals(circles(edgesWithin(["tensor"], withTypes, others)), [], "tensor, types too");
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

Deno.test("each module of tensor may be imported first: none needs the class Tensor to be there", async () => {
  const page = "tensor/tensor.ts";
  const users = imports.filter(({ to, typeOnly }) => to === page && !typeOnly);
  // The entry points bring the class; nobody else does.
  const entries = (await entryPoints()).filter((path) => path.startsWith("tensor/"));
  assertEquals(new Set(users.map(({ from }) => from)), new Set(entries));
  const others = [...new Set(imports.map(({ from }) => from))]
    .filter((path) => path.startsWith("tensor/") && ![...entries, page].includes(path));
  assert(others.length > 100, `${others.length} modules`);
  // Without circles, a module is evaluated after what it imports, whichever of them is imported first.
  const script = `
    const load = (path) => import(new URL(path, ${JSON.stringify(root.href)}));
    for (const path of ${JSON.stringify(others)}) await load(path);
    const { isTensor, stateOf } = await load("tensor/core/tensor_state.ts");
    let refusal = "";
    try { stateOf({}); } catch (error) { refusal = error.message; }
    const { Tensor } = await load(${JSON.stringify(page)});
    const { isTensor: knows } = await load("tensor/core/tensor_state.ts");
    console.log(refusal.includes("Cannot make a tensor"), isTensor({}), knows(Tensor.ones([1], { device: "cpu" })));
  `;
  const { stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["eval", "--quiet", "--no-check", script],
    cwd: root,
    env: plain,
  }).output();
  const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assertEquals(printed.trim(), "true false true");
});

Deno.test("what an entry point gives makes tensors, whichever is imported alone", async () => {
  const uses: Readonly<Record<string, string>> = {
    "tensor/nn.ts": "new m.Linear(2, 3).parameters().length",
    "tensor/optim.ts":
      "new m.SGD(new (await load('tensor/nn/layers/linear.ts')).Linear(2, 3).parameters()).lr",
    "tensor/amp.ts": "await new m.GradScaler().currentScale()",
  };
  for (const [path, use] of Object.entries(uses)) {
    const script = `
      const load = (path) => import(new URL(path, ${JSON.stringify(root.href)}));
      const m = await load(${JSON.stringify(path)});
      ${use};
    `;
    const { success, stderr } = await new Deno.Command(Deno.execPath(), {
      args: ["eval", "--quiet", "--no-check", script],
      cwd: root,
      env: { ...plain, NETCL_DEVICE: "cpu" },
    }).output();
    assert(success, `${path}: ${new TextDecoder().decode(stderr)}`);
  }
});

Deno.test("the tensor layer knows the backend, never OpenCL", () => {
  // Left to it are the types of what users hand over, and what all layers share: an error, the check of options.
  const openCL = imports.filter(({ from, to, typeOnly }) =>
    from.startsWith("tensor/") && to.startsWith("ffi/") && !typeOnly
  );
  assertEquals(
    new Set(openCL.map(({ from }) => from)),
    new Set(["tensor/core/errors.ts", "tensor/core/options.ts"]),
  );
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
  // No permission but to read the modules, which dynamic imports need.
  const file = await Deno.makeTempFile({ suffix: ".js" });
  await Deno.writeTextFile(file, script);
  const { success, stdout, stderr } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--no-check", "--no-prompt", "--allow-read", file],
    cwd: root,
    env: plain,
  }).output();
  await Deno.remove(file);
  const printed = new TextDecoder().decode(stdout) + new TextDecoder().decode(stderr);
  assertEquals(printed, "");
  assert(success);
});
