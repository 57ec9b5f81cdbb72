/** Laws of every file that netcl writes, whichever of its functions writes it. */
import { inFolder as inTemporaryFolder, namesIn } from "../../temporary_folder.ts";
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import {
  loadCsv,
  loadSafetensors,
  memory,
  nn,
  optim,
  profiler,
  saveFile,
  saveNpy,
  saveSafetensors,
  Tensor,
  withDevice,
} from "../../../mod.ts";

Tensor.ones([1], { device: "cpu" }).realize(); // opens the device outside of any test

const ignore = Deno.build.os === "windows";

/** Writes a file of about so many numbers, where the kind of file allows. */
type Writer = (path: string, length?: number) => Promise<void>;

const writers: Record<string, Writer> = {
  saveSafetensors: (path, length = 10) => saveSafetensors(path, { w: Tensor.ones([length]) }),
  saveNpy: (path, length = 10) => saveNpy(path, Tensor.ones([length])),
  "an optimizer's state": (path, length = 10) => {
    const optimizer = new optim.Adam(new nn.Linear(length, 1).parameters(), { lr: 0.1 });
    return saveSafetensors(path, optimizer.stateDict());
  },
  "profiler.trace": (path) => {
    using _ = profiler.trace(path);
    return Promise.resolve();
  },
  "memory.report": (path) => Promise.resolve(memory.report(path)),
};

function inFolder(fn: (folder: string) => Promise<void>): Promise<void> {
  return withDevice("cpu", () => inTemporaryFolder(fn));
}

for (const [name, write] of Object.entries(writers)) {
  Deno.test(`${name}: mode, links and devices stay as they are, planted names are not followed`, {
    ignore,
  }, () =>
    inFolder(async (folder) => {
      const path = `${folder}/file`;
      Deno.writeTextFileSync(path, "x".repeat(100_000));
      Deno.chmodSync(path, 0o600);
      Deno.writeTextFileSync(`${folder}/victim`, "precious");
      Deno.symlinkSync(`${folder}/victim`, `${path}.${Deno.pid}.part`);
      Deno.symlinkSync(path, `${folder}/link`);
      Deno.symlinkSync("/dev/null", `${folder}/sink`);
      await write(`${folder}/link`);
      await write(`${folder}/sink`);
      assert(Deno.lstatSync(`${folder}/link`).isSymlink);
      assert(Deno.lstatSync(`${folder}/sink`).isSymlink);
      assert(Deno.lstatSync("/dev/null").isCharDevice);
      assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
      assert(Deno.statSync(path).size > 0 && !Deno.readTextFileSync(path).includes("xxxx"));
      assertEquals(Deno.readTextFileSync(`${folder}/victim`), "precious");
      assertEquals(namesIn(folder), ["file", `file.${Deno.pid}.part`, "link", "sink", "victim"]);
    }));

  Deno.test(`${name}: a reader of the former file goes on reading it`, { ignore }, () => {
    return inFolder(async (folder) => {
      Deno.writeTextFileSync(`${folder}/file`, "former");
      using reader = Deno.openSync(`${folder}/file`);
      await write(`${folder}/file`);
      const text = new Uint8Array(100);
      assertEquals(new TextDecoder().decode(text.subarray(0, reader.readSync(text)!)), "former");
      assertEquals(namesIn(folder), ["file"]);
    });
  });
}

Deno.test("of two saves to one path at once one is there, whole: the later one", () =>
  inFolder(async (folder) => {
    const path = `${folder}/race.safetensors`;
    for (let i = 0; i < 10; i++) {
      const a = Tensor.full([200_000], 1).realize(), b = Tensor.full([300_000], 2).realize();
      const first = saveSafetensors(path, { a, v: a, w: a });
      await Promise.all([first, saveSafetensors(path, { b, w: b })]);
      const back = await loadSafetensors(path);
      assertEquals(Object.keys(back).sort(), ["b", "w"]);
      assert((await back.w!.toHost()).every((value) => value === 2));
      assertEquals(namesIn(folder), ["race.safetensors"]);
    }
  }));

Deno.test("a save goes where its path led when it began, wherever the program is at the end", () =>
  inFolder(async (folder) => {
    const former = Deno.cwd();
    try {
      Deno.chdir(folder);
      const saves = [
        saveSafetensors("a.safetensors", { w: Tensor.ones([100_000]) }),
        saveNpy("./b.npy", Tensor.ones([100_000])),
      ];
      Deno.chdir("/");
      await Promise.all(saves);
    } finally {
      Deno.chdir(former);
    }
    assertEquals(namesIn(folder), ["a.safetensors", "b.npy"]);
  }));

Deno.test("what could not be read again, and what is no file, is refused before anything is written", () =>
  inFolder(async (folder) => {
    const path = `${folder}/file`, w = Tensor.ones([1]);
    // deno-lint-ignore no-explicit-any -- what a caller without types passes
    const any = (value: unknown) => value as any;
    const web = new URL("http://127.0.0.1/file");
    const calls: (readonly [() => Promise<unknown>, ...string[]])[] = [
      [() => saveSafetensors(path, { w }, { metadata: any({ epoch: 12 }) }), '"epoch" 12'],
      [() => saveSafetensors(path, any({ w: [1] })), "tensors by name"],
      [() => saveNpy(path, any([1])), "pass a tensor"],
      [() => saveSafetensors(web, { w }), "begins with file:"],
      [() => saveSafetensors(`${folder}/a\0b`, { w }), "path"],
      [() => loadSafetensors(web), "begins with file:"],
      [() => loadCsv(new URL("data:,1")), "begins with file:"],
      [() => saveFile(path, any("text")), 'parts "text"'],
      [() => saveFile(path, any(null)), "parts null"],
      [() => saveFile(path, any(new Uint8Array(3))), "parts a Uint8Array"],
      [() => saveFile(path, any(["text"])), 'a part "text"'],
    ];
    for (const [call, ...parts] of calls) {
      const error = await assertRejects(async () => await call(), Error, "Cannot ");
      for (const part of parts) assertStringIncludes(error.message, part);
    }
    assertEquals(namesIn(folder), []);
  }));
