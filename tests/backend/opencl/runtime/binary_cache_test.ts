import { assert, assertEquals } from "@std/assert";
import { BinaryCache } from "../../../../backend/opencl/runtime/binary_cache.ts";
import { cacheFolder } from "../../../../backend/opencl/runtime/cache_folder.ts";
import type { Device } from "../../../../ffi/mod.ts";
import { host } from "../../../../ffi/runtime/host.ts";
import { withCacheFolder } from "../fixture.ts";
import { testInFolder } from "../../../temporary_folder.ts";
import { setVariables } from "../../../variables.ts";

const device = { name: "card", platform: { name: "maker" }, driverVersion: "1.0" };
const binary = new Uint8Array(1000).map((_, i) => i);

function open(changes: Partial<typeof device> = {}): BinaryCache {
  return BinaryCache.open({ ...device, ...changes } as Device)!;
}

const names = (folder: string): string[] => [...Deno.readDirSync(folder)].map(({ name }) => name);

const testCache = (...[name, fn, ignore]: Parameters<typeof testInFolder>): void =>
  testInFolder(name, fn, ignore, withCacheFolder);

testCache("BinaryCache gives back what it was given, also to another one", () => {
  const cache = open();
  assertEquals(cache.read("source", "options"), null);
  cache.write("source", "options", binary);
  assertEquals(cache.read("source", "options"), binary);
  assertEquals(open().read("source", "options"), binary);
  cache.remove("source", "options");
  cache.remove("source", "options");
  assertEquals(cache.read("source", "options"), null);
});

testCache("BinaryCache takes one look at one entry to know if it ever kept anything", () => {
  const cache = open(), { lstatSync } = host;
  for (let k = 0; k < 20; k++) cache.write(`source ${k}`, "options", binary);
  let looks = 0;
  Object.assign(host, { lstatSync: (path: string) => (looks++, lstatSync(path)) });
  try {
    assertEquals([cache.isEmpty, cache.isEmpty], [false, false]);
  } finally {
    Object.assign(host, { lstatSync });
  }
  assertEquals(looks, 1);
});

testCache("BinaryCache keeps entries in a folder that was not there at first", (folder) => {
  Deno.removeSync(folder, { recursive: true });
  const cache = open();
  assertEquals(cache.isEmpty, true);
  cache.write("source", "options", binary);
  assertEquals(cache.isEmpty, false);
  assertEquals(open().read("source", "options"), binary);
});

testCache("BinaryCache tells sources, options, devices and drivers apart", () => {
  open().write("source", "options", binary);
  assertEquals(open().read("other", "options"), null);
  assertEquals(open().read("source", "other"), null);
  assertEquals(open({ name: "other" }).read("source", "options"), null);
  assertEquals(open({ driverVersion: "1.1" }).read("source", "options"), null);
});

testCache("BinaryCache takes a damaged or foreign file for none and removes it", (folder) => {
  const cache = open();
  cache.write("source", "options", binary);
  const path = `${folder}/${names(folder)[0]}`;
  const whole = Deno.readFileSync(path);
  for (const at of [0, 10, 30, 60, 500, whole.length - 1]) {
    Deno.writeFileSync(path, whole.map((byte, i) => i === at ? byte ^ 1 : byte));
    assertEquals(cache.read("source", "options"), null, `byte ${at}`);
    assertEquals(names(folder), [], `byte ${at}`);
  }
  for (const length of [0, 20, whole.length - 1]) {
    Deno.writeFileSync(path, whole.subarray(0, length));
    assertEquals(cache.read("source", "options"), null, `${length} bytes`);
    assertEquals(names(folder), [], `${length} bytes`);
  }
  Deno.writeFileSync(path, whole);
  assertEquals(cache.read("source", "options"), binary);
});

/** A file that takes no room: a file system keeps no pages for what was never written. */
function sparse(path: string, bytes: number, head: string, mtime: number): void {
  Deno.writeTextFileSync(path, head);
  Deno.truncateSync(path, bytes);
  Deno.utimeSync(path, mtime, mtime);
}

testCache("BinaryCache lets the oldest of its entries go where there are too many", (folder) => {
  const mib = 2 ** 20, large = (k: number) => `${folder}/${`${k}`.repeat(16)}.bin`;
  open().write("old", "", binary);
  Deno.utimeSync(`${folder}/${names(folder)[0]}`, 1000, 1000);
  for (let k = 0; k < 4; k++) sparse(large(k), 60 * mib, "netcl1\n", 2000 + k);
  open().write("new", "", binary);
  assertEquals([open().read("old", ""), open().read("new", "")], [binary, binary]);
  sparse(large(4), 20 * mib, "netcl1\n", 3000);
  open().write("newer", "", binary);
  assertEquals(open().read("old", ""), null);
  assertEquals([open().read("new", ""), open().read("newer", "")], [binary, binary]);
  assertEquals(names(folder).length, 6); // the oldest large one went as well
});

testCache("BinaryCache removes nothing that is not its own, by name and by content", (folder) => {
  const others = [
    "thesis.pdf",
    "model.bin",
    "tiles.json",
    `${"a".repeat(16)}.bin`,
    `${"b".repeat(15)}.bin`,
    `${"c".repeat(16)}.bin.bak`,
    ".netcl-notes",
  ];
  for (const name of others) sparse(`${folder}/${name}`, 50 * 2 ** 20, "own", 1000);
  sparse(`${folder}/video.mkv`, 2 ** 30, "netcl1\n", 1000);
  Deno.mkdirSync(`${folder}/${"d".repeat(16)}.bin`);
  for (let k = 0; k < 70; k++) open().write(`${k}`, "", binary);
  const left = new Set(names(folder));
  for (const name of [...others, "video.mkv", `${"d".repeat(16)}.bin`]) {
    assert(left.has(name), name);
  }
  assertEquals(left.size, others.length + 2 + 70);
});

testCache("BinaryCache opens files that this user alone may write", async (folder) => {
  open().write("source", "", binary);
  const path = `${folder}/${names(folder)[0]}`;
  assertEquals(Deno.statSync(path).mode! & 0o777, 0o600);
  Deno.chmodSync(path, 0o620);
  assertEquals(open().read("source", ""), null, "the group may write it");
  Deno.chmodSync(path, 0o600);
  assertEquals(open().read("source", ""), binary);
  Deno.renameSync(path, `${folder}/elsewhere`);
  Deno.symlinkSync(`${folder}/elsewhere`, path);
  assertEquals(open().read("source", ""), null, "a link");
  open().write("source", "", binary);
  assert(Deno.lstatSync(path).isFile, "the link was replaced, not followed");
  Deno.removeSync(path);
  await new Deno.Command("mkfifo", { args: [path] }).output();
  assertEquals(open().read("source", ""), null, "a FIFO would wait for ever");
  Deno.removeSync(path);
  Deno.copyFileSync(`${folder}/elsewhere`, path);
  if (Deno.uid() !== 0) return;
  Deno.chownSync(path, 1234, 1234);
  assertEquals(open().read("source", ""), null, "another user's");
}, Deno.build.os === "windows");

/** The text on stderr when the folder is opened. */
function complaints(fn: () => void): string[] {
  const said: string[] = [], before = console.error;
  console.error = (text: string) => void said.push(text);
  try {
    fn();
  } finally {
    console.error = before;
  }
  return said;
}

testCache("BinaryCache is off, and says so, where others may write or own", (folder) => {
  for (const mode of [0o770, 0o707, 0o1777]) {
    const own = `${folder}/${mode}`;
    Deno.env.set("NETCL_CACHE_DIR", own);
    open().write("source", "", binary);
    assertEquals(Deno.statSync(own).mode! & 0o777, 0o700, "a folder that netcl makes");
    Deno.chmodSync(own, mode);
    const said = complaints(() => {
      for (let k = 0; k < 3; k++) assertEquals(BinaryCache.open(device as Device), null);
    });
    assertEquals(said, [
      `netcl: no kernel is cached: others may write to ${own}; run chmod 700 on it, or set ` +
      "NETCL_CACHE_DIR to a folder of your own",
    ]);
  }
  if (Deno.uid() !== 0) return;
  Deno.mkdirSync(`${folder}/foreign`);
  Deno.chownSync(`${folder}/foreign`, 1234, 1234);
  Deno.env.set("NETCL_CACHE_DIR", `${folder}/foreign`);
  const said = complaints(() => assertEquals(BinaryCache.open(device as Device), null));
  assertEquals(said.length, 1);
  assert(said[0]!.includes("belongs to another user (1234)"), said[0]);
}, Deno.build.os === "windows");

testCache("BinaryCache makes the usual folder this user's alone", (folder) => {
  using _variables = setVariables({ NETCL_CACHE_DIR: undefined, XDG_CACHE_HOME: folder });
  Deno.mkdirSync(`${folder}/netcl`);
  Deno.chmodSync(`${folder}/netcl`, 0o775);
  open().write("source", "", binary);
  assertEquals(Deno.statSync(`${folder}/netcl`).mode! & 0o777, 0o700);
  using _relative = setVariables({ XDG_CACHE_HOME: "relative" });
  const { HOME } = Deno.env.toObject();
  assertEquals(cacheFolder(), HOME ? `${HOME}/.cache/netcl` : null);
}, Deno.build.os !== "linux");

testCache("BinaryCache does without a folder that cannot be made", (folder) => {
  Deno.writeTextFileSync(`${folder}/file`, "in the way");
  Deno.env.set("NETCL_CACHE_DIR", `${folder}/file`);
  const cache = open();
  cache.write("source", "", binary);
  assertEquals(cache.read("source", ""), null);
  assertEquals(Deno.readTextFileSync(`${folder}/file`), "in the way");
});

testCache("BinaryCache is off where NETCL_CACHE_DIR says so", () => {
  Deno.env.set("NETCL_CACHE_DIR", "off");
  assertEquals(BinaryCache.open(device as Device), null);
});
