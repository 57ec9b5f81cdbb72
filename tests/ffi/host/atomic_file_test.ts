import { namesIn, testInFolder } from "../../temporary_folder.ts";
import { works } from "../../machine.ts";
import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { saveFile, saveFileSync, savesFinished } from "../../../ffi/host/atomic_file.ts";
import { runDeno } from "../../run_deno.ts";
import { fileURLToPath } from "node:url";

const isUnix = Deno.build.os !== "windows";
const isRoot = isUnix && Deno.uid() === 0;
const bytes = (text: string): Uint8Array => new TextEncoder().encode(text);

function modeOf(path: string): number {
  return Deno.statSync(path).mode! & 0o777;
}

/** Both ways to save, as the tests need them. */
const ways = {
  saveFile: (path: string, text: string) => saveFile(path, [bytes(text)]),
  saveFileSync: (path: string, text: string) => Promise.resolve(saveFileSync(path, text)),
};

for (const [name, save] of Object.entries(ways)) {
  testInFolder(`${name} writes texts of every length, also over longer ones`, async (folder) => {
    const path = `${folder}/a b ü.txt`;
    for (const length of [100, 17, 16, 15, 1, 0, 1000]) {
      const text = "0123456789abcdef".repeat(100).slice(0, length);
      await save(path, text);
      assertEquals(Deno.readTextFileSync(path), text);
    }
    assertEquals(namesIn(folder), ["a b ü.txt"]);
  });

  testInFolder(`${name} keeps the mode of a file; a new one has the usual mode`, async (folder) => {
    for (const mode of [0o600, 0o640, 0o755, 0o666]) {
      Deno.writeTextFileSync(`${folder}/old`, "x");
      Deno.chmodSync(`${folder}/old`, mode);
      await save(`${folder}/old`, "new");
      assertEquals(modeOf(`${folder}/old`), mode);
    }
    Deno.writeTextFileSync(`${folder}/usual`, "x");
    await save(`${folder}/new`, "new");
    assertEquals(modeOf(`${folder}/new`), modeOf(`${folder}/usual`));
  }, !isUnix);

  testInFolder(`${name} keeps the owner where the user may set it`, async (folder) => {
    Deno.writeTextFileSync(`${folder}/old`, "x");
    Deno.chmodSync(`${folder}/old`, 0o640);
    Deno.chownSync(`${folder}/old`, 1234, 4321);
    await save(`${folder}/old`, "new");
    const { uid, gid } = Deno.statSync(`${folder}/old`);
    assertEquals([uid, gid, modeOf(`${folder}/old`)], [1234, 4321, 0o640]);
  }, !isRoot);

  testInFolder(`${name} leaves links and replaces what they lead to`, async (folder) => {
    Deno.mkdirSync(`${folder}/disk`);
    Deno.writeTextFileSync(`${folder}/disk/target`, "x");
    Deno.symlinkSync("disk/target", `${folder}/near`);
    Deno.symlinkSync(`${folder}/near`, `${folder}/far`);
    Deno.symlinkSync("disk/absent", `${folder}/dangling`);
    await save(`${folder}/far`, "through two links");
    await save(`${folder}/dangling`, "made");
    assertEquals(Deno.readTextFileSync(`${folder}/disk/target`), "through two links");
    assertEquals(Deno.readTextFileSync(`${folder}/disk/absent`), "made");
    for (const link of ["near", "far", "dangling"]) {
      assert(Deno.lstatSync(`${folder}/${link}`).isSymlink, link);
    }
    Deno.symlinkSync("none/at/all", `${folder}/astray`);
    const error = await assertRejects(
      async () => await save(`${folder}/astray`, ""),
      Deno.errors.NotFound,
    );
    const where = `it is a link into ${folder}/none/at, which is not there; make its folder`;
    assert(error.message.includes(where), error.message);
    assert(Deno.lstatSync(`${folder}/astray`).isSymlink);
    Deno.symlinkSync("ring", `${folder}/ring`);
    await assertRejects(async () => await save(`${folder}/ring`, ""), Error, "links lead on");
  }, !isUnix);

  testInFolder(`${name} passes bytes to a device and a FIFO, replacing neither`, async (folder) => {
    Deno.symlinkSync("/dev/null", `${folder}/sink`);
    await save("/dev/null", "x");
    await save(`${folder}/sink`, "x");
    assert(Deno.lstatSync("/dev/null").isCharDevice);
    assert(Deno.lstatSync(`${folder}/sink`).isSymlink);
    const fifo = `${folder}/fifo`;
    await new Deno.Command("mkfifo", { args: [fifo] }).output();
    const reader = new Deno.Command("cat", { args: [fifo], stdout: "piped" }).spawn();
    await save(fifo, "through the FIFO");
    const { stdout } = await reader.output();
    assertEquals(new TextDecoder().decode(stdout), "through the FIFO");
    assert(Deno.lstatSync(fifo).isFifo);
  }, !isUnix);

  testInFolder(`${name} says which path it cannot write, and what to do`, async (folder) => {
    const tell = (path: string) => assertRejects(async () => await save(path, "x"), Error);
    const missing = await tell(`${folder}/none/a`);
    assert(missing instanceof Deno.errors.NotFound);
    const [head, reason, ...tail] = missing.message.split(/: (?=\w[\w ]+; )|; /);
    assertEquals(head, `Cannot save "${folder}/none/a"`);
    if (isUnix) assertEquals(reason, "No such file or directory");
    assertEquals(tail, ["make its folder first (mkdir -p)"]);
    const isFolder = await tell(folder);
    assert(isFolder.message.includes("choose the name of a file in it"), isFolder.message);
    if (isUnix) { // Windows finds no file of such a name
      const long = await tell(`${folder}/${"x".repeat(300)}`);
      assert(long.message.includes("choose a shorter name"), long.message);
      const full = await tell("/dev/full");
      assert(full.message.includes("the disk is full"), full.message);
    }
    assertEquals(namesIn(folder), []);
  });
}

testInFolder(
  "of two saves to one path the one that began later stays, whichever ends first",
  async (folder) => {
    const path = `${folder}/file`;
    const gate = Promise.withResolvers<void>();
    async function* slow() {
      yield bytes("the earlier ");
      await gate.promise;
      yield bytes("one");
    }
    const first = saveFile(path, slow());
    await saveFile(path, [bytes("the later one")]);
    gate.resolve();
    await first;
    assertEquals(Deno.readTextFileSync(path), "the later one");
    assertEquals(namesIn(folder), ["file"]);
    await saveFile(path, [bytes("one more")]);
    assertEquals(Deno.readTextFileSync(path), "one more");
  },
);

testInFolder("a save whose bytes fail leaves the former file alone", async (folder) => {
  Deno.writeTextFileSync(`${folder}/file`, "former");
  async function* failing() {
    yield bytes("half");
    await Promise.resolve();
    throw new RangeError("no more");
  }
  await assertRejects(() => saveFile(`${folder}/file`, failing()), RangeError, "no more");
  assertEquals(Deno.readTextFileSync(`${folder}/file`), "former");
  assertEquals(namesIn(folder), ["file"]);
});

testInFolder("savesFinished waits for the saves that go on", async (folder) => {
  const gate = Promise.withResolvers<void>();
  async function* slow() {
    await gate.promise;
    yield bytes("done");
  }
  const save = saveFile(`${folder}/file`, slow());
  let finished = false;
  const waiting = savesFinished().then(() => finished = true);
  await new Promise((resolve) => setTimeout(resolve, 5));
  assertEquals(finished, false);
  gate.resolve();
  await Promise.all([save, waiting]);
  assertEquals(finished, true);
});

testInFolder("what a killed process left is taken away by the next save", async (folder) => {
  const module = new URL("../../../ffi/host/atomic_file.ts", import.meta.url).href;
  const program = `
      import { saveFile } from ${JSON.stringify(module)};
      async function* endless() {
        for (;;) {
          yield new Uint8Array(1000);
          console.log("part");
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      }
      await saveFile(Deno.args[0], endless());`;
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--no-check", `data:text/typescript,${encodeURIComponent(program)}`]
      .concat(`${folder}/model`),
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  await reader.read();
  const [left] = namesIn(folder);
  assert(left !== undefined, "the partial file is there");
  await saveFile(`${folder}/other`, [bytes("beside a save that goes on")]);
  assertEquals(namesIn(folder), [left, "other"].sort());
  child.kill("SIGKILL");
  await reader.cancel();
  await child.status;
  Deno.writeTextFileSync(`${folder}/.netcl-0123456789abcdef.part`, "somebody's own, by content");
  Deno.writeTextFileSync(`${folder}/model.123.part`, "netcl unfinished by content only");
  await saveFile(`${folder}/other`, [bytes("again")]);
  assertEquals(namesIn(folder), [".netcl-0123456789abcdef.part", "model.123.part", "other"]);
});

testInFolder("a full disk leaves the former file and nothing beside it", async (folder) => {
  const mount = await new Deno.Command("mount", {
    args: ["-t", "tmpfs", "-o", "size=256k", "tmpfs", folder],
    stderr: "null",
  }).output();
  if (!mount.success) return; // a container may not
  try {
    await saveFile(`${folder}/file`, [bytes("former")]);
    const error = await assertRejects(
      () => saveFile(`${folder}/file`, [new Uint8Array(1 << 20)]),
      Error,
      "the disk is full: make room, or save elsewhere",
    );
    assert(error.message.startsWith(`Cannot save "${folder}/file": `), error.message);
    assertThrows(() => saveFileSync(`${folder}/file`, "x".repeat(1 << 20)), Error, "full");
    assertEquals(Deno.readTextFileSync(`${folder}/file`), "former");
    assertEquals(namesIn(folder), ["file"]);
  } finally {
    await new Deno.Command("umount", { args: [folder] }).output();
  }
}, !isRoot || Deno.build.os !== "linux");

/**
 * Root without its privileges: other users' files are closed to it as to anyone. Another user could not
 * start Deno where `npx` keeps it, in root's own folder of mode 0700.
 */
const withoutPrivileges = ["setpriv", "--bounding-set=-all", "--inh-caps=-all"];

const dropsPrivileges = isRoot && works("setpriv", ...withoutPrivileges.slice(1), "true");

/** Runs a program that may do what an ordinary user may, with some permissions. */
async function unprivileged(program: string, flags: string[], ...args: string[]): Promise<string> {
  const module = new URL("../../../ffi/host/atomic_file.ts", import.meta.url).href;
  const source = `import { saveFile } from ${JSON.stringify(module)};
    const save = (path, text) =>
      saveFile(path, [new TextEncoder().encode(text)]).then(() => "saved", (e) => e.message);
    ${program}`;
  const url = `data:text/typescript,${encodeURIComponent(source)}`;
  const { out, err } = await runDeno(["run", "--no-check", "--no-prompt", ...flags, url, ...args], {
    through: dropsPrivileges ? withoutPrivileges : [],
  });
  return out + err;
}

testInFolder("who may not write is told, and a protected file stays", async (folder) => {
  Deno.mkdirSync(`${folder}/own`);
  Deno.mkdirSync(`${folder}/foreign`);
  Deno.chownSync(`${folder}/foreign`, 65534, 65534);
  Deno.writeTextFileSync(`${folder}/own/protected`, "former");
  Deno.chmodSync(`${folder}/own/protected`, 0o444);
  const out = await unprivileged(
    `console.log(await save(Deno.args[0] + "/new", "x"));
         console.log(await save(Deno.args[0] + "/protected", "x"));
         console.log(await save(Deno.args[1] + "/new", "x"));`,
    ["-A"],
    `${folder}/own`,
    `${folder}/foreign`,
  );
  const [own, kept, foreign] = out.split("\n");
  assertEquals(own, "saved");
  for (const line of [kept!, foreign!]) {
    assert(/^Cannot save .*: Permission denied; it or its folder is not writable/.test(line));
  }
  assertEquals(Deno.readTextFileSync(`${folder}/own/protected`), "former");
}, !dropsPrivileges);

testInFolder(
  "with permissions for the file alone it is overwritten, without any the flag is named",
  async (folder) => {
    const run = (...flags: string[]) =>
      unprivileged(
        `console.log(await save(Deno.args[0] + "/file", "short"));`,
        [...flags, `--allow-read=${fileURLToPath(new URL("../../../", import.meta.url))}`],
        folder,
      );
    assertEquals(await run(`--allow-write=${folder}/file`), "saved\n");
    assertEquals(Deno.readTextFileSync(`${folder}/file`), "short");
    assert((await run()).includes(`run with --allow-write="${folder}/file"`));
  },
);
