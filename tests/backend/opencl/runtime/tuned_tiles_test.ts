import { assertEquals, assertThrows } from "@std/assert";
import {
  keepTunedTile,
  readTunedTiles,
  tunedTilesPath,
} from "../../../../backend/opencl/runtime/tuned_tiles.ts";
import { type Device, platforms } from "../../../../ffi/mod.ts";
import { hasOpenCL } from "../../../opencl.ts";
import { testWithCache } from "../fixture.ts";

const device = hasOpenCL ? platforms().flatMap((platform) => platform.devices())[0]! : null!;
const tile = { rows: 4, columns: 48, packed: false };

function otherwise(names: Partial<Pick<Device, "name" | "driverVersion">>): Device {
  const { platform, name, driverVersion } = device;
  return { platform, name, driverVersion, ...names } as Device;
}

testWithCache("TunedTiles are found again, and go when nothing is left of them", (folder) => {
  assertEquals(readTunedTiles(device).size, 0);
  keepTunedTile(device, "a", { tile });
  keepTunedTile(device, "b", { parts: 2 });
  keepTunedTile(device, "a", { parts: 4 });
  assertEquals([...readTunedTiles(device)], [["a", { tile, parts: 4 }], ["b", { parts: 2 }]]);
  keepTunedTile(device, "b", { parts: undefined });
  keepTunedTile(device, "a", { parts: undefined });
  assertEquals([...readTunedTiles(device)], [["a", { tile }]]);
  // Renamed, not copied: nothing else is left in the folder.
  assertEquals([...Deno.readDirSync(folder)].length, 1);
});

testWithCache("TunedTiles: another device or driver has tiles of its own", () => {
  keepTunedTile(device, "a", { tile });
  for (const other of [otherwise({ name: "another" }), otherwise({ driverVersion: "0" })]) {
    assertEquals(readTunedTiles(other).size, 0);
    // Not even under the right name.
    Deno.copyFileSync(tunedTilesPath(device)!, tunedTilesPath(other)!);
    assertEquals(readTunedTiles(other).size, 0);
    keepTunedTile(other, "a", { parts: 2 });
    assertEquals([...readTunedTiles(other)], [["a", { parts: 2 }]]);
  }
  assertEquals([...readTunedTiles(device)], [["a", { tile }]]);
});

testWithCache("TunedTiles: a damaged file counts for nothing, and is replaced", () => {
  keepTunedTile(device, "a", { tile });
  const path = tunedTilesPath(device)!, text = Deno.readTextFileSync(path);
  const damaged = [
    "",
    text.slice(0, -9),
    "null",
    "[]",
    text.replace(/"format": \d+/, '"format": 0'),
    text.replace('"tiles": {', '"tiles": [], "others": {'),
    text.replace(/"a": \{/, '"a": 1, "others": {').replace(/"tiles"/, '"tile"'),
  ];
  for (const content of damaged) {
    Deno.writeTextFileSync(path, content);
    assertEquals([...readTunedTiles(device)], [], content);
  }
  keepTunedTile(device, "b", { tile });
  assertEquals([...readTunedTiles(device)], [["b", { tile }]]);
});

testWithCache("TunedTiles: without a cache folder no tile is read, and none can be kept", () => {
  Deno.env.set("NETCL_CACHE_DIR", "off");
  assertEquals(readTunedTiles(device).size, 0);
  assertThrows(() => keepTunedTile(device, "a", { tile }), Error, "NETCL_CACHE_DIR");
});

Deno.test("TunedTiles: without the permission to read, tuned tiles are not asked for", {
  ignore: !hasOpenCL,
  permissions: { env: true, read: false, ffi: true },
}, () => assertEquals(readTunedTiles(device).size, 0));
