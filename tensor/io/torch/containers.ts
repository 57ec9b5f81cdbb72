/** The containers of PyTorch's checkpoints: a ZIP archive, the stream before 1.6, a tar before that. */
import { findTar } from "../archives/tar.ts";
import { ZipArchive } from "../archives/zip.ts";
import type { ByteSource } from "../core/byte_source.ts";
import { elementBytes } from "../core/elements.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import { readerOf } from "../core/reader_of.ts";
import { ByteCursor } from "./byte_cursor.ts";
import { describe, unpickle } from "./pickle.ts";
import { findTorchName, Storage, StorageClass, storageOf, StoredTensor } from "./torch_names.ts";

/** A checkpoint whose tensors have not been read. */
export interface Checkpoint {
  /** The saved value: numbers, texts, lists, Maps, and {@linkcode StoredTensor}s. */
  readonly value: unknown;
  /** Order of the bytes of an element. */
  readonly littleEndian: boolean;
  /** The bytes of a storage, which may be more than it needs. */
  bytesOf(storage: Storage): Promise<Uint8Array<ArrayBuffer>>;
}

/** The first pickle of the stream of PyTorch 0.1.10 to 1.5, a number. */
const MAGIC = 0x1950a86a20f9469cfc6cn;
const ZIP_MAGIC = 0x04034b50;

/**
 * Reads what a checkpoint says, and finds its storages.
 *
 * @throws {FileFormatError} For files of other kinds, damaged ones, and objects that are not built.
 */
export async function openCheckpoint(source: ByteSource): Promise<Checkpoint> {
  const start = await source.read(0, Math.min(4, source.size));
  if (start.length === 4 && new ByteCursor(start).uint32() === ZIP_MAGIC) {
    return openArchive(await ZipArchive.open(source, { checksums: false }));
  }
  const bytes = await source.read(0, source.size);
  const tar = findTar(bytes);
  if (tar) return openTar(tar);
  // Pickles of protocol 2 and later begin so; older ones hold no checkpoint of PyTorch.
  if (bytes[0] === 0x80) return openStream(bytes);
  throw new FileFormatError(
    `This is no checkpoint of PyTorch: it is neither a ZIP archive, nor a stream, nor a tar${
      readerOf(bytes)
    }`,
  );
}

const storages = { find: findTorchName, load: storageOf };

async function openArchive(archive: ZipArchive): Promise<Checkpoint> {
  const found = archive.names.find((name) => /^([^/]*\/)?data\.pkl$/.test(name));
  if (found === undefined) throw new FileFormatError("The archive has no entry data.pkl");
  const folder = found.slice(0, -"data.pkl".length);
  if (archive.has(`${folder}constants.pkl`)) {
    throw new FileFormatError(
      "This is a program (TorchScript), not a checkpoint. In Python, " +
        "torch.save(torch.jit.load(path).state_dict(), other) saves its tensors",
    );
  }
  const order = archive.has(`${folder}byteorder`) ? await archive.read(`${folder}byteorder`) : null;
  return {
    value: unpickle(new ByteCursor(await archive.read(found)), storages),
    littleEndian: order === null || new TextDecoder().decode(order) !== "big",
    bytesOf: ({ key }) => archive.read(`${folder}data/${key}`),
  };
}

/**
 * Pickles of a magic number, a version, facts of the machine, the object and the keys of its storages;
 * then those, each a length of 8 bytes and its elements.
 */
function openStream(bytes: Uint8Array<ArrayBuffer>): Checkpoint {
  const cursor = new ByteCursor(bytes), read = () => unpickle(cursor, storages);
  const first = read();
  // A pickle alone is what torch.save never wrote, but pickle.dump does.
  if (first !== MAGIC) return { value: first, littleEndian: true, bytesOf: () => missing() };
  const version = read(), system = read();
  if (version !== 1001) throw new FileFormatError(`The stream's version is ${describe(version)}`);
  const known = new Map<string, Storage>();
  const value = unpickle(cursor, { find: findTorchName, load: (id) => streamStorage(id, known) });
  const littleEndian = !(system instanceof Map) || system.get("little_endian") !== false;
  const parts = cutStorages(cursor, read(), known);
  return { value, littleEndian, bytesOf: async ({ key }) => parts.get(key) ?? await missing() };
}

function missing(): Promise<never> {
  throw new FileFormatError("The file does not hold a storage that one of its tensors is part of");
}

/** A storage of the stream, whose id may say that it is a part of another one. */
function streamStorage(id: unknown, known: Map<string, Storage>): Storage {
  const storage = storageOf(id), view = (id as unknown[])[5];
  if (view !== null && view !== undefined) {
    throw new FileFormatError(
      "A storage is part of another one, as PyTorch 0.1 wrote them: save the file with a later one",
    );
  }
  const former = known.get(storage.key);
  if (former && (former.type !== storage.type || former.length !== storage.length)) {
    throw new FileFormatError(`Storage ${shown(storage.key)} is described twice, in two ways`);
  }
  known.set(storage.key, former ?? storage);
  return former ?? storage;
}

function cutStorages(
  cursor: ByteCursor,
  keys: unknown,
  known: ReadonlyMap<string, Storage>,
): Map<string, Uint8Array<ArrayBuffer>> {
  const parts = new Map<string, Uint8Array<ArrayBuffer>>();
  if (!Array.isArray(keys)) throw new FileFormatError("The stream has no list of storages");
  for (const key of keys) {
    const storage = known.get(key), length = cursor.uint64();
    if (!storage || length !== storage.length) {
      throw new FileFormatError(`Storage ${describe(key)} has ${length} elements: expected others`);
    }
    parts.set(key, cursor.take(length * elementBytes(storage.type)));
  }
  return parts;
}

/** Entries "storages", "tensors" and "pickle", the last of which names tensors by numbers. */
function openTar(entries: ReadonlyMap<string, Uint8Array<ArrayBuffer>>): Checkpoint {
  const open = (name: string): ByteCursor => {
    const bytes = entries.get(name);
    if (bytes) return new ByteCursor(bytes);
    throw new FileFormatError(
      `The tar has no entry ${shown(name)}: it is no checkpoint of PyTorch`,
    );
  };
  const parts = new Map<string, Uint8Array<ArrayBuffer>>(), known = new Map<string, Storage>();
  readTarStorages(open("storages"), known, parts);
  const tensors = readTarTensors(open("tensors"), known);
  const load = (id: unknown): unknown => {
    // A class comes with its source, which is left.
    if (Array.isArray(id)) return id[0];
    const tensor = tensors.get(String(id)) ?? known.get(String(id));
    if (tensor === undefined) throw new FileFormatError(`The pickle loads ${describe(id)}`);
    return tensor;
  };
  return {
    value: unpickle(open("pickle"), { find: findTorchName, load }),
    littleEndian: true,
    bytesOf: async ({ key }) => parts.get(key) ?? await missing(),
  };
}

function countOf(cursor: ByteCursor): number {
  const count = unpickle(cursor, storages);
  if (typeof count === "number" && count >= 0 && count <= cursor.left) return count;
  throw new FileFormatError(`The tar claims ${describe(count)} tensors`);
}

function readTarStorages(
  cursor: ByteCursor,
  known: Map<string, Storage>,
  parts: Map<string, Uint8Array<ArrayBuffer>>,
): void {
  const count = countOf(cursor);
  for (let k = 0; k < count; k++) {
    const entry = unpickle(cursor, storages);
    const [key, , storageClass] = Array.isArray(entry) ? entry : [];
    if (!(storageClass instanceof StorageClass)) {
      throw new FileFormatError(`The tar has ${describe(entry)} where a storage is due`);
    }
    const length = cursor.uint64(), { type } = storageClass;
    known.set(String(key), new Storage(String(key), length, type));
    parts.set(String(key), cursor.take(length * elementBytes(type)));
  }
}

function readTarTensors(
  cursor: ByteCursor,
  known: ReadonlyMap<string, Storage>,
): Map<string, StoredTensor> {
  const tensors = new Map<string, StoredTensor>(), count = countOf(cursor);
  for (let k = 0; k < count; k++) {
    const entry = unpickle(cursor, storages);
    const [key, storageKey] = Array.isArray(entry) ? entry : [],
      storage = known.get(`${storageKey}`);
    if (!storage) throw new FileFormatError(`The tar has ${describe(entry)} where a tensor is due`);
    const axes = cursor.uint64(), read = () => Array.from({ length: axes }, () => cursor.int64());
    if (axes > cursor.left) throw new FileFormatError(`A tensor of the tar has ${axes} axes`);
    const shape = read(), strides = read();
    tensors.set(String(key), new StoredTensor(storage, cursor.int64(), shape, strides, false));
  }
  return tensors;
}
