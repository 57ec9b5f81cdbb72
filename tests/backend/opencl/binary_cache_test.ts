import { assert, assertEquals } from "@std/assert";
import { BinaryCache } from "../../../backend/opencl/binary_cache.ts";
import type { Device } from "../../../ffi/mod.ts";
import { withCacheFolder } from "./fixture.ts";

const device = { name: "card", platform: { name: "maker" }, driverVersion: "1.0" };
const binary = new Uint8Array(1000).map((_, i) => i);

function open(changes: Partial<typeof device> = {}): BinaryCache {
  return BinaryCache.open({ ...device, ...changes } as Device)!;
}

const names = (folder: string): string[] => [...Deno.readDirSync(folder)].map(({ name }) => name);

Deno.test("BinaryCache gives back what it was given, also to another one", () =>
  withCacheFolder(() => {
    const cache = open();
    assertEquals(cache.read("source", "options"), null);
    cache.write("source", "options", binary);
    assertEquals(cache.read("source", "options"), binary);
    assertEquals(open().read("source", "options"), binary);
    cache.remove("source", "options");
    cache.remove("source", "options");
    assertEquals(cache.read("source", "options"), null);
  }));

Deno.test("BinaryCache tells sources, options, devices and drivers apart", () =>
  withCacheFolder(() => {
    open().write("source", "options", binary);
    assertEquals(open().read("other", "options"), null);
    assertEquals(open().read("source", "other"), null);
    assertEquals(open({ name: "other" }).read("source", "options"), null);
    assertEquals(open({ driverVersion: "1.1" }).read("source", "options"), null);
  }));

Deno.test("BinaryCache takes a damaged or foreign file for none", () =>
  withCacheFolder((folder) => {
    const cache = open();
    cache.write("source", "options", binary);
    const path = `${folder}/${names(folder)[0]}`;
    const whole = Deno.readFileSync(path);
    for (const at of [0, 10, 30, whole.length - 1]) {
      Deno.writeFileSync(path, whole.map((byte, i) => i === at ? byte ^ 1 : byte));
      assertEquals(cache.read("source", "options"), null, `byte ${at}`);
    }
    for (const length of [0, 20, whole.length - 1]) {
      Deno.writeFileSync(path, whole.subarray(0, length));
      assertEquals(cache.read("source", "options"), null, `${length} bytes`);
    }
    Deno.writeFileSync(path, whole);
    assertEquals(cache.read("source", "options"), binary);
  }));

Deno.test("BinaryCache leaves nothing but whole entries, and lets the oldest go", () =>
  withCacheFolder((folder) => {
    const cache = open();
    cache.write("old", "", binary);
    const [old] = names(folder);
    Deno.utimeSync(`${folder}/${old}`, 1000, 1000);
    // Takes no room: a file system keeps no pages for what was never written.
    Deno.writeFileSync(`${folder}/large`, new Uint8Array(0));
    Deno.truncateSync(`${folder}/large`, 255 * 2 ** 20);
    Deno.utimeSync(`${folder}/large`, 2000, 2000);
    cache.write("new", "", binary);
    cache.trim();
    assertEquals([cache.read("old", ""), cache.read("new", "")], [binary, binary]);
    Deno.truncateSync(`${folder}/large`, 256 * 2 ** 20);
    Deno.utimeSync(`${folder}/large`, 2000, 2000);
    cache.write("newer", "", binary);
    cache.trim();
    assertEquals(cache.read("old", ""), null);
    assertEquals([cache.read("new", ""), cache.read("newer", "")], [binary, binary]);
    assert(names(folder).every((name) => name.endsWith(".bin")), names(folder).join());
  }));

Deno.test("BinaryCache does without a folder that cannot be made", () =>
  withCacheFolder((folder) => {
    Deno.writeTextFileSync(`${folder}/file`, "in the way");
    Deno.env.set("NETCL_CACHE_DIR", `${folder}/file`);
    const cache = open();
    cache.write("source", "", binary);
    assertEquals(cache.read("source", ""), null);
    assertEquals(Deno.readTextFileSync(`${folder}/file`), "in the way");
  }));

Deno.test("BinaryCache is off where NETCL_CACHE_DIR says so", () =>
  withCacheFolder(() => {
    Deno.env.set("NETCL_CACHE_DIR", "off");
    assertEquals(BinaryCache.open(device as Device), null);
  }));
