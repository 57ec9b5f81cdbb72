import { assert, assertEquals, assertRejects } from "@std/assert";
import { memory } from "../../../memory/mod.ts";
import {
  FileFormatError,
  loadNpy,
  loadSafetensors,
  readSafetensorsMetadata,
  saveNpy,
  saveSafetensors,
} from "../../../tensor/io/mod.ts";
import { type DType, Tensor } from "../../../tensor/mod.ts";
import { testOnBackends, testOnCPU } from "../../opencl.ts";
import {
  assertHolds,
  expectedArray,
  expectedArrays,
  fixtureNames,
  fixtureUrl,
} from "./fixtures.ts";
import { runDeno } from "../../run_deno.ts";
import { inFolder, namesIn } from "../../temporary_folder.ts";

async function hostArray(tensor: Tensor) {
  return { data: await tensor.toHost(), shape: tensor.shape, dtype: tensor.dtype };
}

const dtypes = "float32 float16 bfloat16 int32 int64 int16 int8 uint32 uint8 bool".split(
  " ",
) as DType[];

testOnBackends("loadSafetensors puts a file of another writer on the device", async (backend) => {
  const expected = expectedArrays("all_types.safetensors");
  const tensors = await loadSafetensors(fixtureUrl("all_types.safetensors"), { device: backend });
  assertEquals(Object.keys(tensors).sort(), Object.keys(expected).sort());
  for (const [name, tensor] of Object.entries(tensors)) {
    assertEquals(tensor.backend, backend);
    assertHolds(await hostArray(tensor), expected[name]!, name);
    tensor.dispose();
  }
});

testOnBackends("every dtype comes back from a safetensors file as it was", () => {
  return inFolder(async (folder) => {
    const tensors = Object.fromEntries(
      dtypes.map((dtype) => [dtype, Tensor.fromHost([[0, 1, 2], [3, 4, 5]]).cast(dtype)]),
    );
    await saveSafetensors(`${folder}/t.safetensors`, tensors, { metadata: { epoch: "3" } });
    const back = await loadSafetensors(`${folder}/t.safetensors`);
    assertEquals(Object.keys(back), dtypes as string[]);
    for (const dtype of dtypes) {
      assertEquals(await hostArray(back[dtype]!), await hostArray(tensors[dtype]!), dtype);
    }
    assertEquals({ ...await readSafetensorsMetadata(`${folder}/t.safetensors`) }, { epoch: "3" });
    assertEquals(namesIn(folder), ["t.safetensors"]);
  });
});

testOnBackends("saveSafetensors writes the values of the moment of the call", () => {
  return inFolder(async (folder) => {
    const names = ["a", "b", "c"];
    const tensors = Object.fromEntries(names.map((name) => [name, Tensor.ones([4]).realize()]));
    const saved = saveSafetensors(`${folder}/t.safetensors`, tensors);
    for (const name of names) tensors[name]!.assign(Tensor.zeros([4])).realize();
    await saved;
    const back = await loadSafetensors(`${folder}/t.safetensors`);
    for (const name of names) assertEquals(await back[name]!.toArray(), [1, 1, 1, 1], name);
  });
});

testOnBackends("saving and loading leave no memory behind", () => {
  return inFolder(async (folder) => {
    using tensor = Tensor.ones([100]).realize();
    const before = memory.stats().currentAllocated;
    await saveSafetensors(`${folder}/t.safetensors`, { tensor });
    await saveNpy(`${folder}/t.npy`, tensor);
    for (const loaded of Object.values(await loadSafetensors(`${folder}/t.safetensors`))) {
      loaded.dispose();
    }
    (await loadNpy(`${folder}/t.npy`)).dispose();
    assert(memory.stats().currentAllocated <= before);
  });
});

testOnCPU(
  "a save that fails leaves the former file and nothing beside it",
  () =>
    inFolder(async (folder) => {
      const path = `${folder}/t.safetensors`, a = Tensor.ones([2]);
      await saveSafetensors(path, { w: a });
      const unreadable = Tensor.arange(3).indexSelect(0, Tensor.fromHost(Int32Array.of(9)));
      await assertRejects(() => saveSafetensors(path, { a, w: unreadable }), RangeError, "9");
      assertEquals(namesIn(folder), ["t.safetensors"]);
      assertEquals(await (await loadSafetensors(path)).w!.toArray(), [1, 1]);
    }),
);

Deno.test("loadSafetensors names the file that is damaged", () =>
  inFolder(async (folder) => {
    const path = `${folder}/bad.safetensors`;
    await Deno.writeFile(path, Uint8Array.of(255, 255, 255, 255, 255, 255, 255, 127, 1, 2, 3));
    const { message } = await assertRejects(() => loadSafetensors(path), FileFormatError);
    assert(message.startsWith(`Cannot read "${path}": The header claims 9223372036854775807`));
    await Deno.writeFile(path, new Uint8Array(3));
    await assertRejects(() => loadSafetensors(path), FileFormatError, "has 3");
    await assertRejects(() => readSafetensorsMetadata(path), FileFormatError, "has 3");
  }));

for (const name of fixtureNames(".npy")) {
  testOnBackends(`loadNpy puts NumPy's ${name} on the device`, async (backend) => {
    using tensor = await loadNpy(fixtureUrl(name), { device: backend });
    assertEquals(tensor.backend, backend);
    assertHolds(await hostArray(tensor), expectedArray(name), name);
  });
}

testOnBackends("saveNpy writes a view as what it shows", () =>
  inFolder(async (folder) => {
    const path = `${folder}/t.npy`;
    await saveNpy(path, Tensor.arange(6).reshape([2, 3]).transpose());
    assertEquals(await (await loadNpy(path)).toArray(), [[0, 3], [1, 4], [2, 5]]);
  }));

Deno.test("loadNpy names the file that is no .npy", () =>
  inFolder(async (folder) => {
    const path = `${folder}/bad.npy`;
    await Deno.writeTextFile(path, "not numpy at all");
    const { message } = await assertRejects(() => loadNpy(path), FileFormatError, "\\x93NUMPY");
    assert(message.startsWith(`Cannot read "${path}": `));
  }));

Deno.test("a file is saved with the permission to write it alone", () =>
  inFolder(async (folder) => {
    const path = `${folder}/t.npy`;
    const program = `import { saveNpy, Tensor } from "${new URL(
      "../../../mod.ts",
      import.meta.url,
    )}";
      const t = Tensor.fromHost([1, 2], { device: "cpu" });
      for (let k = 0; k < 2; k++) await saveNpy(${JSON.stringify(path)}, t.add(k));`;
    await Deno.writeTextFile(`${folder}/program.ts`, program);
    const allowed = `--allow-write=${path}`, file = `${folder}/program.ts`;
    const { code, err } = await runDeno(["run", "--no-prompt", "--no-check", allowed, file]);
    assertEquals([code, err], [0, ""]);
    const t = await loadNpy(path, { device: "cpu" });
    assertEquals(await t.toArray(), [2, 3]);
    assertEquals(namesIn(folder), ["program.ts", "t.npy"]);
  }));

Deno.test("what is no regular file is read to its end, and given up where it has none", {
  ignore: Deno.build.os === "windows",
}, () =>
  inFolder(async (folder) => {
    const pipe = `${folder}/pipe`, path = `${folder}/x.npy`;
    await saveNpy(path, Tensor.arange(0, 300_000, 1, { device: "cpu" }));
    await new Deno.Command("mkfifo", { args: [pipe] }).output();
    const writing = Deno.readFile(path).then((bytes) => Deno.writeFile(pipe, bytes));
    const [x] = await Promise.all([loadNpy(pipe, { device: "cpu" }), writing]);
    assertEquals((await x.toHost()).at(-1), 299_999);
    await assertRejects(() => loadNpy("/dev/zero"), FileFormatError, '"/dev/zero": It is no reg');
    for (const load of [loadNpy, loadSafetensors]) {
      await assertRejects(() => load(folder), Deno.errors.IsADirectory, `Cannot read "${folder}"`);
    }
  }));
