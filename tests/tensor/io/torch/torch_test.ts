import {
  assert,
  assertEquals,
  assertMatch,
  assertRejects,
  assertStringIncludes,
} from "@std/assert";
import fc from "fast-check";
import { loadIdx, loadNpy, loadSafetensors, memory, nn, type Tensor } from "../../../../mod.ts";
import { zipParts } from "../../../../tensor/io/archives/zip_writer.ts";
import { FileFormatError } from "../../../../tensor/io/core/file_format_error.ts";
import type { HostArray } from "../../../../tensor/io/core/host_array.ts";
import { decodeTorch, loadTorch } from "../../../../tensor/io/torch/torch.ts";
import { testOnBackends, testOnCPU } from "../../../opencl.ts";
import { assertOnlyFormatErrors, testDamage } from "../arbitraries.ts";

const fixture = (name: string): URL => new URL(`./fixtures/${name}.pt`, import.meta.url);
const bytesOf = (name: string): Uint8Array<ArrayBuffer> => Deno.readFileSync(fixture(name));

const containers = "zip legacy tar protocol0 protocol2 protocol5 big_endian numpy5".split(" ");

// Before the others: what they leave to the collector falls into its counts.
testOnBackends("tensors of one storage share memory, and none is left behind", async () => {
  const allocated = () => memory.stats().currentAllocated;
  const before = allocated();
  const all = await loadTorch(fixture("protocol2")) as Record<string, Tensor>;
  const { weight, column, repeated, scalar } = all;
  // 12 floats, and a copy for "windows", which overlap.
  assert(allocated() - before <= 2 * 256, `${allocated() - before} bytes for one storage`);
  weight!.dispose();
  assertEquals(await column!.toArray(), [1, 5, 9]);
  for (const t of [column!, repeated!, scalar!]) t.dispose();
  for (const t of Object.values(all)) if (t instanceof Object && "dispose" in t) t.dispose();
  // What other tests of this process left may have gone meanwhile.
  assert(allocated() <= before, `${allocated() - before} bytes are left`);
});

for (const name of ["zip", "legacy"]) {
  testOnBackends(`loadTorch reads PyTorch's ${name}.pt: model, views, types, numbers`, async () => {
    // deno-lint-ignore no-explicit-any -- what was saved
    const all = await loadTorch(fixture(name)) as any;
    assertEquals([all.step, all.lr], [7, 0.5]);
    assertEquals(await all.t.toArray(), [[0, 4, 8], [1, 5, 9], [2, 6, 10], [3, 7, 11]]);
    assertEquals(await all.part.toArray(), [[6, 7], [10, 11]]);
    assertEquals([all.n.dtype, await all.n.toNumbers()], ["int64", [1, 2, 3]]);
    for (const half of ["h", "b"]) assertEquals((await all[half].toNumbers()).at(-1), 11);
    assertEquals([all.h.dtype, all.b.dtype], ["float16", "bfloat16"]);
    const net = new nn.Sequential(new nn.Linear(4, 8), new nn.ReLU(), new nn.Linear(8, 3));
    net.loadStateDict(all.model);
  });
}

const matrix = [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]];

for (const protocol of [0, 1, 2, 3, 4, 5]) {
  testOnCPU(`loadTorch builds what Python's pickles of protocol ${protocol} say`, async () => {
    const all = await loadTorch(fixture(`protocol${protocol}`)) as Record<string, unknown>;
    const { lists, pairs, ...rest } = all as { lists: unknown[]; pairs: Map<unknown, unknown> };
    const tensors = protocol === 0 ? {} : {
      ...{ weight: matrix, again: matrix, parameter: [4, 5], old: [8, 9, 10, 11] },
      ...{ column: [1, 5, 9], repeated: [[2, 3], [2, 3], [2, 3]], scalar: 11, none: [] },
      windows: [[0, 1, 2], [2, 3, 4], [4, 5, 6], [6, 7, 8], [8, 9, 10]],
    };
    assertEquals(await arraysIn(rest), {
      ...tensors,
      ...{ dict: { a: 1 }, set: new Set([3]), size: [2, 3], device: "cuda:0" },
      ...{ numbers: { 0: "zero" }, large: 2n ** 70n, negative: -300, float: -0.25 },
      ...{ truth: [true, false, null], text: "naïve — 東京", bytes: Uint8Array.of(0, 255) },
      nested: { a: { b: [1, [2, [3]]] } },
    });
    assertEquals([...pairs], [[[1, 2], "tuple"]]);
    assert(lists[0] === lists[1], "a list that was shared is shared");
    assert(all.weight === all.again, "a tensor that was shared is shared");
    assertEquals((all.parameter as Tensor)?.requiresGrad ?? true, true);
  });
}

/** A value with nested arrays in the place of tensors. */
async function arraysIn(all: Record<string, unknown>): Promise<Record<string, unknown>> {
  const entries = Object.entries(all).map(async ([key, value]) => {
    const isTensor = typeof value === "object" && value !== null && "toArray" in value;
    return [key, isTensor ? await (value as Tensor).toArray() : value];
  });
  return Object.fromEntries(await Promise.all(entries));
}

for (const name of ["numpy2", "numpy5"]) {
  testOnCPU(
    `loadTorch reads NumPy's arrays and numbers, settings, counters: ${name}.pt`,
    async () => {
      const all = await loadTorch(fixture(name)) as Record<string, unknown>;
      assert(all.matrix === all.again, "an array that was shared is shared");
      const matrix = [[0, 1, 2], [3, 4, 5]], columns = [[0, 3], [1, 4], [2, 5]];
      assertEquals(await arraysIn(all), {
        ...{ loss: 0.5, half: 1.5, best: true, steps: 2n ** 60n, dtype: "f4", none: [] },
        ...{ matrix, again: matrix, columns, big: [0, 1, 2, 3, 4, 5] },
        flags: [false, false, false, false, true, true],
        ...{ args: { lr: 0.1, path: "/data/run" }, milestones: { 3: 2, 9: 1 } },
        ...{ empty: new Uint8Array(), bytes: Uint8Array.of(0, 255) },
      });
      const { columns: turned, big } = all as Record<string, Tensor>;
      assertEquals([turned!.dtype, big!.dtype], ["int16", "float64"]);
    },
  );
}

testOnCPU("loadTorch reads the tar of PyTorch 0.1", async () => {
  const { weight, column } = await loadTorch(fixture("tar")) as Record<string, Tensor>;
  assertEquals(await weight!.toArray(), matrix);
  assertEquals(await column!.toArray(), [2, 6]);
});

Deno.test("loadTorch reads the order of bytes that the file names", async () => {
  const { halves } = await decodeTorch(bytesOf("big_endian")) as Record<string, HostArray>;
  assertEquals([[...halves!.data], halves!.dtype], [[1, 2, 65535], "int32"]);
});

/** An archive whose pickle has these letters. */
async function archive(pickle: string, others: Record<string, Uint8Array> = {}) {
  const data = Uint8Array.from(pickle, (letter) => letter.charCodeAt(0));
  const entries = Object.entries({ "a/data.pkl": data, ...others });
  return new Blob(await Array.fromAsync(zipParts(entries)) as BlobPart[]).bytes();
}

const storage = "(X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000X\x03\0\0\0cpuK\x04tQ";
const tensor = (rest: string) => `ctorch._utils\n_rebuild_tensor_v2\n(${storage}${rest}\x89NtR.`;
const four = { "a/data/0": new Uint8Array(16) };

/** Pickles, and what their error says. */
const refused: Readonly<Record<string, string>> = {
  "cos\nsystem\n(X\x02\0\0\0lstR.": '"os.system"',
  "c__main__\nModel\n)\x81.": '"__main__.Model"',
  "(Vx\niposix\nsystem\n.": '"posix.system"',
  "X\x05\0\0\0posixX\x06\0\0\0system\x93.": '"posix.system"',
  "ccollections\nOrderedDict\n.": "holds a class",
  "ccollections\nOrderedDict\nK\x01\x85R.": "calls OrderedDict with 1",
  "K\x01)R.": "calls 1",
  "K\x01Q.": "loads 1, which is no storage",
  ".": "takes a value that it has not made",
  "N": "1 bytes are due",
  "t.": "ends a sequence that it has not begun",
  "h\x05.": "recalls value 5",
  "]K\x01K\x02s.": "what is no dict",
  "}(K\x01u.": "without a value",
  "}K\x01a.": "what is no list",
  "\xff.": "unknown code 255",
  "\x80\x09N.": "protocol is 9",
  "X\xff\xff\xff\xffabc": "4294967295 bytes are due",
  "\x8b\xff\xff\xff\x7f": "whole number of 2147483647 bytes",
  "cnumpy\ndtype\nX\x02\0\0\0O8\x85R.": 'dtype "O8"',
  "cnumpy.core.multiarray\nscalar\nNN\x86R.": "where a dtype of NumPy is due",
  "cnumpy.core.multiarray\n_reconstruct\n)R.": "no valid shape",
  "cnumpy.core.multiarray\n_reconstruct\n)RK\x01b.": "has 1 as state",
  "cargparse\nNamespace\n)RK\x01b.": "calls a namespace with 1",
  "ctorch\ncomplex64\n.": "torch.view_as_real(tensor)",
  "ctorch\nQInt8Storage\n.": "tensor.dequantize()",
  "ctorch._utils\n_rebuild_sparse_tensor\n.": "tensor.to_dense()",
  [`${storage}.`]: "a storage by itself",
  [tensor("K\x00K\x05\x85K\x01\x85")]: "does not fit",
  [tensor("K\x01K\x04\x85K\x01\x85")]: "does not fit",
  [tensor("K\x00K\x02\x85J\xff\xff\xff\xff\x85")]: "does not fit",
  [tensor("K\x00K\x02\x85K\x01K\x01\x86")]: "does not fit",
  [tensor("N)N")]: "does not fit",
  [tensor("K\x00J\xff\xff\xff\x7f\x85K\x00\x85")]: "repeats the elements",
  // A list that is copied often, and one that is nested without end.
  [`](${"N".repeat(2000)}eq\x01c__builtin__\nset\nq\x020${"h\x02h\x01\x85R0".repeat(10)}N.`]:
    "copies",
  ["]".repeat(600) + "a".repeat(599) + "."]: "too deep",
};

Deno.test("decodeTorch refuses what is no data by its name, and damage by its place", async () => {
  for (const [pickle, says] of Object.entries(refused)) {
    const bytes = await archive(pickle, four);
    const error = await assertRejects(() => decodeTorch(bytes), FileFormatError, says);
    assert(error.message.length < 500, "the message is short");
  }
  const program = await archive("N.", { "a/constants.pkl": new Uint8Array(1) });
  await assertRejects(() => decodeTorch(program), FileFormatError, "TorchScript");
  const empty = await archive(tensor("K\x00K\x04\x85K\x01\x85"), { "a/data/0": new Uint8Array(9) });
  await assertRejects(() => decodeTorch(empty), FileFormatError, "has 9 bytes");
  await assertRejects(() => decodeTorch(new Uint8Array(9)), FileFormatError, "no checkpoint");
});

Deno.test("a value that holds itself comes back so", async () => {
  const list = await decodeTorch(await archive("]q\x01h\x01a.")) as unknown[];
  assert(list[0] === list);
});

Deno.test("a key may be named __proto__ without harm", async () => {
  const dict = await decodeTorch(await archive("}X\x09\0\0\0__proto__}s.")) as object;
  assertEquals([Object.keys(dict), Object.getPrototypeOf(dict)], [["__proto__"], Object.prototype]);
});

Deno.test("decodeTorch refuses a tensor without strides", async () => {
  const storage = "(Vstorage\nctorch\nFloatStorage\nV0\nVcpu\nK\x01tQ";
  const pickle = `\x80\x02ctorch._utils\n_rebuild_tensor_v2\n(${storage}K\x00K\x01\x85tR.`;
  const bytes = Uint8Array.from(pickle, (letter) => letter.charCodeAt(0));
  await assertRejects(() => decodeTorch(bytes), FileFormatError, "strides undefined");
});

Deno.test("loadTorch names the file, and runs nothing of it", async () => {
  const { message } = await assertRejects(() => loadTorch(fixture("evil")), FileFormatError);
  assert(message.includes("evil.pt") && message.includes('"posix.system"'), message);
  await assertRejects(() => Deno.stat("evil"), Deno.errors.NotFound);
});

testDamage("decodeTorch", () => containers.map(bytesOf), (bytes) => decodeTorch(bytes), 500);

Deno.test("decodeTorch answers any pickle with a FileFormatError or values", async () => {
  const codes = fc.constantFrom(
    ..."NK\x00.()]}tlduaesb0123pqrhjcRQ\x85\x86\x87\x94\x8f\x90\x91\x93\x81",
    ...["K\x01", "h\x00", "h\x01", "q\x00", "q\x01", "b", "C\x04\0\0\0\0", "X\x01\0\0\0a"],
    ...[storage, tensor("K\x00K\x04\x85K\x01\x85").slice(0, -1), "c_codecs\nencode\n"],
    ...["ccollections\nOrderedDict\n", "c__builtin__\nset\n", "cpathlib\nPosixPath\n"],
    ...["cargparse\nNamespace\n)R", "cnumpy.core.multiarray\n_reconstruct\n)R"],
    ...["cnumpy.core.multiarray\nscalar\n", "cnumpy._core.numeric\n_frombuffer\n"],
    "cnumpy\ndtype\nX\x02\0\0\0f4\x85R",
  );
  await fc.assert(
    fc.asyncProperty(fc.array(codes, { maxLength: 40 }), async (pickle) => {
      const bytes = await archive(`${pickle.join("")}.`, four);
      await assertOnlyFormatErrors(() => decodeTorch(bytes));
    }),
    { numRuns: 500 },
  );
});

Deno.test("readers of other files say what reads a checkpoint of PyTorch, and an .npz", async () => {
  for (const name of ["zip", "legacy"]) {
    for (const load of [loadSafetensors, loadNpy, loadIdx]) {
      const read = () => load(fixture(name)) as Promise<unknown>;
      const { message } = await assertRejects(read, FileFormatError);
      assertMatch(message, /loadTorch .*of "@netcl\/netcl\/models"/);
      if (name === "zip") assertStringIncludes(message, "loadNpz archives of NumPy (.npz)");
    }
  }
  const npy = new Uint8Array(200);
  npy.set([0x93, ...new TextEncoder().encode("NUMPY")]);
  await assertRejects(() => decodeTorch(npy), FileFormatError, "a .npy file: loadNpy reads it");
});
