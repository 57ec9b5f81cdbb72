// Suite: first, no device; takes long; tests within it name their backends.
/** The recipes of CONTRIBUTING.md, followed in a copy of the tree: what they say is what works. */
import { assert, assertEquals, assertThrows } from "@std/assert";
import { hasOpenCL } from "./opencl.ts";
import { root } from "./module_graph.ts";
import { runDeno } from "./run_deno.ts";
import { inSameFolder } from "./temporary_folder.ts";

/** A file that a recipe changes, or makes. */
interface Edit {
  readonly path: string;
  readonly isNew: boolean;
  /** The text that is found once in the file, and its replacement. */
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

/** Cases that the page's own tests leave open: the additions as a user meets them, together. */
const programOfAdditions = `
import { assert, assertAlmostEquals, assertEquals, assertThrows } from "@std/assert";
import { bindExtension, OpenCLUnavailableError, suggestedLocalWorkSizeFunctions } from "./ffi/mod.ts";
import { environmentVariables } from "./ffi/host/environment.ts";
import { withExpressions } from "./backend/tile/language/expression.ts";
import { gemv, gemvMapping } from "./backend/tile/programs/packed/gemv.ts";
import { narrowUnit } from "./backend/tile/units.ts";
import { compile, manager, memory, nn, optim, Tensor, withDevice } from "./mod.ts";
import { interpret } from "./tests/backend/tile/interpreter.ts";
import { testOnBackends, testOpenCL } from "./tests/opencl.ts";

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

testOnBackends("ema: values, gradients of two orders, and a compiled loop", (backend) => withDevice(backend, () => {
  const x = Tensor.fromHost([[8, 4, 2], [0, 16, 8]], { requiresGrad: true });
  const y = x.ema(0.5, 1);
  assertEquals([...y.toHostSync()], [4, 4, 3, 0, 8, 8]);
  y.mul(y).sum().backward();
  // The derivative of the squares: averages from the end of twice the averages.
  assertEquals([...x.grad!.toHostSync()], [6.75, 5.5, 3, 6, 12, 8]);
  assertEquals([...x.detach().ema(0.5, 0).toHostSync()], [4, 2, 1, 2, 9, 4.5]);
  assertEquals([...Tensor.fromHost([4, 8]).cast("int32").ema(0.25, 0).toHostSync()], [3, 6.75]);
  assertThrows(() => x.ema(2, 0), RangeError, "decay");
  for (const decay of [0.5, 0.75]) {
    const step = compile((value: Tensor) => value.ema(decay, 0));
    let state = Tensor.fromHost([1, 1]), expected = [1, 1];
    for (let k = 0; k < 4; k++) {
      state = step(state);
      const [a, b] = expected as [number, number];
      const first = (1 - decay) * a;
      expected = [first, decay * first + (1 - decay) * b];
      assertEquals([...state.toHostSync()], [...Float32Array.from(expected)]);
    }
  }
}));

testOnBackends("blocks of TQ2_0 are read one by one, and multiplied", (backend) => withDevice(backend, () => {
  const block = Uint8Array.from({ length: 66 }, (_, k) => 37 * k);
  block.set([0x00, 0x38], 64); // 0.5
  const expected = Array.from({ length: 256 }, (_, at) =>
    0.5 * ((block[(at >> 7) * 32 + at % 32]! >> 2 * (at >> 5 & 3) & 3) - 1));
  const weight = Tensor.fromBlocks(block, "TQ2_0").decodeBlocks("TQ2_0", [1, 256]);
  const product = Tensor.ones([2, 256]).matmul(weight.transpose());
  const sum = expected.reduce((a, b) => a + b);
  assertEquals([...product.toHostSync()], [sum, sum]);
  assertEquals([...weight.toHostSync()], expected);
}));

Deno.test("the new unit has each result of a product once, by way of local memory", () => {
  const w = { name: "w", blocks: 24, offset: 0 };
  const x = { name: "x", element: "float32", offset: 0, rows: [], terms: [{ size: 256, step: 1 }] } as const;
  const product = { format: "Q8_0", rows: 1, columns: 3, terms: 256, x, w } as const;
  let names = 0;
  const mapping = gemvMapping(product, narrowUnit)!;
  const kernel = withExpressions(() => gemv(product, narrowUnit, mapping, () => "p" + names++));
  assertEquals(kernel.items, 128);
  // Scales of 1 and numbers of 1: a sum is the number of its terms.
  const bytes = new Uint8Array(24 * 34).fill(1);
  new Uint16Array(bytes.buffer, 24 * 32).fill(0x3c00);
  const buffers = { x: new Float32Array(256).fill(1).buffer, w: bytes.buffer };
  const { faults, results } = interpret(kernel, buffers);
  assertEquals([...faults], []);
  assertEquals([...results].sort(), [["0,0", 256], ["0,1", 256], ["0,2", 256]]);
});

testOpenCL("tensors of a training loop live in the new pool, whose statistics are right", () => {
  const device = manager.default("cl");
  withDevice(device, () => {
    const layer = new nn.Linear(64, 32), x = Tensor.ones([16, 64]).realize();
    const optimizer = new optim.SGD(layer.parameters(), { lr: 0.01 });
    const step = (): number => {
      optimizer.zeroGrad();
      using loss = layer.forward(x).square().mean();
      loss.backward();
      optimizer.step();
      return loss.itemSync();
    };
    const losses = [step(), step(), step()];
    assertEquals(memory.snapshot(device).pool, "PagePool");
    const before = memory.stats(device);
    losses.push(step(), step());
    const after = memory.stats(device);
    assert(after.hits > before.hits, "blocks are lent again");
    assertEquals([after.misses, after.nativeAllocs], [before.misses, before.nativeAllocs]);
    assertEquals(after.allocated.current % 4096, 0);
    assert(after.requested.current > 0 && after.requested.current <= after.allocated.current);
    assertEquals(after.bytesAllocated + after.bytesCached, after.reservedBytes);
    assert(losses.at(-1)! < losses[0]!, String(losses));
  });
});

Deno.test("the guide's line of the new pool is that of the table of variables", async () => {
  const page = await Deno.readTextFile("examples/guide/devices.md");
  const row = page.split("\\n").find((line) => line.includes("NETCL_POOL"))!;
  const { values, default: standard } = environmentVariables.NETCL_POOL;
  assertEquals(row.split("|").slice(2, 4).map((cell) => cell.trim()), [values, standard]);
});

testOpenCL("a driver that claims the extension and lacks its function is named", () => {
  const { name, platform } = manager.default("cl").clDevice!;
  const claims = { name, platform, extensions: ["cl_khr_none"] };
  const table = { clNoneKHR: suggestedLocalWorkSizeFunctions.clGetKernelSuggestedLocalWorkSizeKHR };
  const error = assertThrows(
    () => bindExtension(claims as never, "cl_khr_none", table),
    OpenCLUnavailableError,
  );
  assert(error.message.includes("clNoneKHR") && error.message.includes(name), error.message);
});

Deno.test("the new backend is a device like others, and trains", () => {
  const device = manager.default("plain");
  assert(manager.list().includes(device));
  assertEquals([device.selector, device.deviceName], ["plain", "plain backend"]);
  const run = (name: string) => withDevice(name, () => {
    const x = Tensor.arange(12).div(12).reshape([4, 3]), w = Tensor.arange(6).div(6).reshape([3, 2]);
    w.requiresGrad = true;
    x.matmul(w).relu().softmax(1).square().sum().backward();
    assertEquals(w.backend, name);
    return [...w.grad!.toHostSync()];
  });
  const [plain, cpu] = [run("plain"), run("cpu")];
  plain.forEach((value, k) => assertAlmostEquals(Number(value), Number(cpu[k]), 1e-6));
  assert(memory.stats(device).numAllocs > 0);
  const error = assertThrows(() => manager.default("simple"), RangeError);
  assert(error.message.includes('"simple"'), error.message);
});
`;

/** Runs Deno in a folder, and gives back what it printed. */
async function deno(folder: string, args: string[]): Promise<string> {
  const { success, out, err } = await runDeno(args, { cwd: folder, env: { NETCL_POOL: "page" } });
  assert(success, out + err);
  return out + err;
}

/** Files that change for an operation of one element, those of its tests among them. */
const MAX_FILES_OF_UNARY = 5;

const recipes = [
  "Add a unary operation",
  "Add a layer",
  "Add an operation with state",
  "Add a contraction template",
  "Add an operator of ONNX",
  "Add an architecture of language models",
  "Add a format of blocks",
  "Add a unit of tile programs",
  "Add a matrix unit",
  "Add a pool",
  "Add an OpenCL extension function",
  "Add a backend",
];

/** Tests of the tree that hold for the additions too: C headers, devices, layers, pages. */
const laws = [
  "tests/ffi/symbols/symbols_test.ts",
  "tests/backend/devices/devices_test.ts",
  "tests/layers_test.ts",
  "tests/docs_test.ts",
];

/** Laws of which some cases are about the additions; the suite itself runs the others. */
const parts = {
  /** Every method of tensors has a row among the operations that are held against PyTorch. */
  "tests/conformance/completeness_test.ts": "every (method|function)", // rows have no cases yet
  "tests/memory/pools/pool_conformance_test.ts": "PagePool",
  "tests/tensor/models/onnx/export/layers_test.ts": "each layer|every class of nn",
  "tests/backend/tile/programs/matrix_gemm_test.ts": "matrixGemm on AMD's and Intel's units",
  "tests/backend/opencl/runtime/matrix_units_test.ts": "unitsByFacts",
};

Deno.test("the recipes work as the page says, all of them in one tree", async () => {
  const page = await Deno.readTextFile(new URL("CONTRIBUTING.md", root));
  const edits = recipes.flatMap((heading) => {
    const found = editsOf(page, heading);
    assert(found.length > 0, `"${heading}" has no diff`);
    return found;
  });
  const unary = new Set(editsOf(page, "Add a unary operation").map(({ path }) => path));
  assert(unary.size <= MAX_FILES_OF_UNARY, `a unary operation takes ${[...unary].join(", ")}`);
  assertEquals(recipes, [...page.matchAll(/^## (Add .*)$/gm)].map(([, heading]) => heading!));
  await inSameFolder("recipes", async (path) => {
    const folder = toFileUrl(path);
    const tree = ["ffi", "memory", "backend", "tensor", "tests", "bench", "examples"];
    const pages = [
      "README.md",
      "CHANGELOG.md",
      "SECURITY.md",
      "CONTRIBUTING.md",
      "ARCHITECTURE.md",
    ];
    for (const needed of [...tree, ...pages, "LICENSE", "mod.ts", "deno.json"]) {
      await copyInto(folder, needed);
    }
    await follow(folder, edits);
    await Deno.writeTextFile(new URL("additions_test.ts", folder), programOfAdditions);
    const changed = [...new Set(edits.map((edit) => edit.path))].filter((p) => p.endsWith(".ts"));
    await deno(path, ["fmt", "--check", ...changed]);
    await deno(path, ["lint", ...changed]);
    const made = edits.filter((edit) => edit.isNew).map((edit) => edit.path);
    const tests = ["additions_test.ts", ...made.filter((p) => p.endsWith("_test.ts")), ...laws];
    const files = Object.keys(parts), filter = `/^(${Object.values(parts).join("|")})/`;
    await deno(path, ["check", "--no-lock", ...tests, ...files, "tests/compilers/check.ts"]);
    const run = ["test", "-A", "--no-check", "--no-lock"];
    const printedOfParts = await deno(path, [...run, "--filter", filter, ...files]);
    for (
      const part of [
        "every method",
        "every function",
        "PagePool, simulated: ",
        "each layer",
        "matrixGemm on",
      ]
    ) {
      assert(printedOfParts.includes(`\n${part}`), `${part} did not run: ${printedOfParts}`);
    }
    const printed = await deno(path, [...run, ...tests]);
    for (const test of tests) assert(printed.includes(` from ./${test}`), `${test} did not run`);
    const numbers = [" (cpu)", " (plain)", ...hasOpenCL ? [" (cl)"] : []];
    for (const backend of numbers) assert(printed.includes(`cbrt: values and gradients${backend}`));
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
