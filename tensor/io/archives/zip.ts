/**
 * ZIP archives (PKWARE's APPNOTE 6.3), as NumPy and PyTorch write them: entries that are stored or
 * deflated, ZIP64 too.
 *
 * This folder (`archives/`) reads and writes files that hold files. It imports `core/`; `numpy/` and
 * `torch/` take entries from it.
 */
import type { ByteSource } from "../core/byte_source.ts";
import { FileFormatError, shown } from "../core/file_format_error.ts";
import { DEFAULT_MAX_BYTES, expand } from "../core/gzip.ts";
import { crc32 } from "./crc32.ts";

const END = 0x06054b50, END64 = 0x06064b50, LOCATOR64 = 0x07064b50;
const CENTRAL = 0x02014b50, LOCAL = 0x04034b50;
const END_BYTES = 22, LOCATOR64_BYTES = 20, END64_BYTES = 56, CENTRAL_BYTES = 46, LOCAL_BYTES = 30;
// A field of 4 bytes that does not suffice holds this, and the value stands in the ZIP64 extra field.
const IN_EXTRA_FIELD = 0xffff_ffff, EXTRA_ZIP64 = 1;
const MAX_COMMENT_BYTES = 0xffff;
const STORED = 0, DEFLATED = 8;

/** An entry of an archive, as its directory describes it. */
interface ZipEntry {
  readonly method: number;
  readonly flags: number;
  readonly checksum: number;
  readonly packedBytes: number;
  readonly bytes: number;
  readonly headerStart: number;
}

/** Options of reading entries. */
export interface ZipOptions {
  /** The most bytes that a deflated entry may expand to; 1 GiB unless given. */
  maxBytes?: number | undefined;
  /** Compares checksums, unless false: PyTorch can be told to write none. */
  checksums?: boolean;
}

/** An archive whose directory has been read. */
export class ZipArchive {
  readonly #source: ByteSource;
  readonly #entries: ReadonlyMap<string, ZipEntry>;
  readonly #options: ZipOptions;

  private constructor(source: ByteSource, entries: Map<string, ZipEntry>, options: ZipOptions) {
    this.#source = source;
    this.#entries = entries;
    this.#options = options;
  }

  /**
   * Reads the directory.
   *
   * @throws {FileFormatError} Where the bytes are no whole archive.
   */
  static async open(source: ByteSource, options: ZipOptions = {}): Promise<ZipArchive> {
    const { start, length, count } = await findDirectory(source);
    const entries = parseDirectory(await source.read(start, length), count);
    return new ZipArchive(source, entries, options);
  }

  /** The names of all entries, in the order of the directory. */
  get names(): string[] {
    return [...this.#entries.keys()];
  }

  /** True where there is an entry of this name. */
  has(name: string): boolean {
    return this.#entries.has(name);
  }

  /**
   * The contents of an entry.
   *
   * @throws {FileFormatError} Where there is none, or it is damaged, encrypted or too large.
   */
  async read(name: string): Promise<Uint8Array<ArrayBuffer>> {
    const entry = this.#entries.get(name);
    if (!entry) throw new FileFormatError(`The archive has no entry ${shown(name)}`);
    const packed = await this.#packed(name, entry);
    const bytes = entry.method === STORED ? packed : await this.#expand(name, entry, packed);
    if (bytes.byteLength !== entry.bytes) {
      throw damaged(
        name,
        `it has ${bytes.byteLength} bytes, and its directory says ${entry.bytes}`,
      );
    }
    if (this.#options.checksums !== false && crc32(bytes) !== entry.checksum) {
      throw damaged(name, "its checksum is another");
    }
    return bytes;
  }

  async #packed(name: string, entry: ZipEntry): Promise<Uint8Array<ArrayBuffer>> {
    if (entry.flags & 1) throw new FileFormatError(`Entry ${shown(name)} is encrypted`);
    if (entry.method !== STORED && entry.method !== DEFLATED) {
      throw new FileFormatError(
        `Entry ${
          shown(name)
        } is compressed by method ${entry.method}: stored and deflated are read`,
      );
    }
    const header = viewOf(await this.#source.read(entry.headerStart, LOCAL_BYTES));
    if (header.getUint32(0, true) !== LOCAL) {
      throw damaged(name, "its header is not where it should be");
    }
    const skipped = header.getUint16(26, true) + header.getUint16(28, true);
    return this.#source.read(entry.headerStart + LOCAL_BYTES + skipped, entry.packedBytes);
  }

  #expand(name: string, entry: ZipEntry, packed: Uint8Array<ArrayBuffer>) {
    const maxBytes = this.#options.maxBytes ?? DEFAULT_MAX_BYTES;
    if (entry.bytes <= maxBytes) return expand(packed, "deflate-raw", entry.bytes);
    throw new FileFormatError(
      `Entry ${
        shown(name)
      } expands to ${entry.bytes} bytes: give a maxBytes larger than ${maxBytes}`,
    );
  }
}

function damaged(name: string, what: string): FileFormatError {
  return new FileFormatError(`Entry ${shown(name)} is damaged: ${what}`);
}

function viewOf(bytes: Uint8Array): DataView {
  return new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
}

interface Directory {
  readonly start: number;
  readonly length: number;
  readonly count: number;
}

/** The directory's place, which stands at the end of the file, before a comment. */
async function findDirectory(source: ByteSource): Promise<Directory> {
  const tailBytes = Math.min(source.size, END_BYTES + MAX_COMMENT_BYTES);
  const tail = viewOf(await source.read(source.size - tailBytes, tailBytes));
  for (let at = tailBytes - END_BYTES; at >= 0; at--) {
    if (tail.getUint32(at, true) !== END) continue;
    const end = source.size - tailBytes + at;
    const found = await findDirectory64(source, end);
    return found ?? {
      count: tail.getUint16(at + 10, true),
      length: tail.getUint32(at + 12, true),
      start: tail.getUint32(at + 16, true),
    };
  }
  throw new FileFormatError("This is no ZIP archive, or it is cut: it has no directory at its end");
}

async function findDirectory64(source: ByteSource, end: number): Promise<Directory | null> {
  if (end < LOCATOR64_BYTES) return null;
  const locator = viewOf(await source.read(end - LOCATOR64_BYTES, LOCATOR64_BYTES));
  if (locator.getUint32(0, true) !== LOCATOR64) return null;
  const record = viewOf(await source.read(bigAt(locator, 8), END64_BYTES));
  if (record.getUint32(0, true) !== END64) {
    throw new FileFormatError("The archive is damaged: its ZIP64 record is not where it should be");
  }
  return { count: bigAt(record, 32), length: bigAt(record, 40), start: bigAt(record, 48) };
}

/** A length of 8 bytes; one beyond 2^53 is no exact number, and beyond the end of any file. */
function bigAt(view: DataView, at: number): number {
  return Number(view.getBigUint64(at, true));
}

function parseDirectory(bytes: Uint8Array, count: number): Map<string, ZipEntry> {
  const entries = new Map<string, ZipEntry>(), view = viewOf(bytes);
  let at = 0;
  for (let n = 0; n < count; n++) {
    if (at + CENTRAL_BYTES > bytes.length || view.getUint32(at, true) !== CENTRAL) {
      throw new FileFormatError(`The archive's directory is damaged at entry ${n} of ${count}`);
    }
    const nameEnd = at + CENTRAL_BYTES + view.getUint16(at + 28, true);
    const extraEnd = nameEnd + view.getUint16(at + 30, true);
    const name = new TextDecoder().decode(bytes.subarray(at + CENTRAL_BYTES, nameEnd));
    if (entries.has(name)) throw new FileFormatError(`The archive has two entries ${shown(name)}`);
    entries.set(name, entryAt(view, at, bytes.subarray(nameEnd, extraEnd)));
    at = extraEnd + view.getUint16(at + 32, true);
  }
  return entries;
}

function entryAt(view: DataView, at: number, extra: Uint8Array): ZipEntry {
  const large = largeFields(extra);
  const field = (offset: number): number => {
    const value = view.getUint32(at + offset, true);
    return value === IN_EXTRA_FIELD ? large.next().value ?? value : value;
  };
  // The ZIP64 extra field holds those that need it in this order.
  const bytes = field(24), packedBytes = field(20), headerStart = field(42);
  return {
    flags: view.getUint16(at + 8, true),
    method: view.getUint16(at + 10, true),
    checksum: view.getUint32(at + 16, true),
    bytes,
    packedBytes,
    headerStart,
  };
}

/** The values of the ZIP64 extra field, if there is one. */
function* largeFields(extra: Uint8Array): Generator<number, undefined> {
  const view = viewOf(extra);
  for (let at = 0; at + 4 <= extra.length;) {
    const end = at + 4 + view.getUint16(at + 2, true);
    if (view.getUint16(at, true) === EXTRA_ZIP64) {
      for (let k = at + 4; k + 8 <= Math.min(end, extra.length); k += 8) yield bigAt(view, k);
    }
    at = end;
  }
}
