/**
 * The tiles that `deno task tune` found best, on disk: one file a device and driver. What is damaged,
 * of another device or of another format counts for nothing.
 */
import type { Device } from "../../../ffi/mod.ts";
import { saveError } from "../../../ffi/host/save_error.ts";
import { CacheFolder, cacheFolder, hashText, identityOf } from "./cache_folder.ts";
import type { Tuned } from "../../kernel/target.ts";

/** Changes with the meaning of the tiles, or of the names of shapes. */
const FORMAT = 2;

/** Results found for a device, by shape. */
export type TunedTiles = ReadonlyMap<string, Tuned>;

/** Path of a device's tiles; null where nothing is kept. */
export function tunedTilesPath(device: Device): string | null {
  const folder = cacheFolder();
  return folder === null ? null : `${folder}/${tilesName(device)}`;
}

const tilesName = (device: Device): string => `${hashText(identityOf(device))}.tiles.json`;

/** Tiles tuned on a device; none where the file may not be read. */
export function readTunedTiles(device: Device): TunedTiles {
  let bytes: Uint8Array | null | undefined;
  try {
    bytes = CacheFolder.open("read")?.read(tilesName(device));
  } catch (error) {
    if (!(error instanceof Error && "code" in error)) throw error; // the defaults do as well
  }
  return bytes ? parse(new TextDecoder().decode(bytes), identityOf(device)) : new Map();
}

/**
 * Adds what was found for a shape; what is undefined goes.
 *
 * @throws {Error} Where there is no folder for it, and what the file system has to say.
 */
export function keepTunedTile(device: Device, key: string, found: Tuned): void {
  const folder = CacheFolder.open("read", "write");
  if (folder === null) {
    throw new Error(
      "Cannot keep a tile: there is no cache folder that can be used; set NETCL_CACHE_DIR to one " +
        "of your own, with --allow-read and --allow-write for it",
    );
  }
  const all = new Map(readTunedTiles(device));
  const entry: Tuned = { ...all.get(key), ...found };
  if (Object.values(entry).some((value) => value !== undefined)) all.set(key, entry);
  else if (!all.delete(key)) return;
  const content = { format: FORMAT, device: identityOf(device), tiles: Object.fromEntries(all) };
  const text = JSON.stringify(content, null, 2) + "\n";
  try {
    folder.write(tilesName(device), new TextEncoder().encode(text));
  } catch (error) {
    throw saveError(tunedTilesPath(device)!, error);
  }
}

function parse(text: string, device: string): TunedTiles {
  let content: unknown;
  try {
    content = JSON.parse(text);
  } catch {
    return new Map();
  }
  if (!isRecord(content) || content.format !== FORMAT || content.device !== device) {
    return new Map();
  }
  const tiles = isRecord(content.tiles) ? Object.entries(content.tiles) : [];
  return new Map(tiles.filter((entry): entry is [string, Tuned] => isRecord(entry[1])));
}

function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
