import { FileFormatError } from "../core/file_format_error.ts";

/** Bytes in memory that are read one after the other, little-endian. */
export class ByteCursor {
  readonly #bytes: Uint8Array<ArrayBuffer>;
  readonly #view: DataView;
  /** The place of the next byte. */
  at: number;

  /** Starts at a place. */
  constructor(bytes: Uint8Array<ArrayBuffer>, at = 0) {
    this.#bytes = bytes;
    this.#view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    this.at = at;
  }

  /** Bytes that are left. */
  get left(): number {
    return this.#bytes.length - this.at;
  }

  /**
   * The next bytes, not copied.
   *
   * @throws {FileFormatError} Where there are not as many.
   */
  take(count: number): Uint8Array<ArrayBuffer> {
    const from = this.#skip(count);
    return this.#bytes.subarray(from, from + count);
  }

  /** The next line, without its end, as ASCII. */
  line(): string {
    const end = this.#bytes.indexOf(0x0a, this.at);
    if (end < 0) throw new FileFormatError(`The line at byte ${this.at} has no end`);
    const text = new TextDecoder("latin1").decode(this.#bytes.subarray(this.at, end));
    this.at = end + 1;
    return text;
  }

  /** The next byte. */
  uint8(): number {
    return this.#view.getUint8(this.#skip(1));
  }

  /** The next 2 bytes. */
  uint16(): number {
    return this.#view.getUint16(this.#skip(2), true);
  }

  /** The next 4 bytes, signed. */
  int32(): number {
    return this.#view.getInt32(this.#skip(4), true);
  }

  /** The next 4 bytes. */
  uint32(): number {
    return this.#view.getUint32(this.#skip(4), true);
  }

  /** The next 8 bytes as a length; one beyond 2^53 is inexact, and beyond the end of any file. */
  uint64(): number {
    return Number(this.#view.getBigUint64(this.#skip(8), true));
  }

  /** The next 8 bytes, signed. */
  int64(): number {
    return Number(this.#view.getBigInt64(this.#skip(8), true));
  }

  /** The next 8 bytes as a double, big-endian, as pickles have it. */
  float64BigEndian(): number {
    return this.#view.getFloat64(this.#skip(8));
  }

  #skip(count: number): number {
    if (count < 0 || count > this.left) {
      throw new FileFormatError(`${count} bytes are due at byte ${this.at}: ${this.left} are left`);
    }
    this.at += count;
    return this.at - count;
  }
}
