import { crc32 } from "./crc32.ts";

/** 1980-01-01, the first day that the format knows: the same entries give the same bytes. */
const DATE = 0x21;
const MAX_FIELD = 0xffff_ffff;

/**
 * The bytes of an archive of stored entries, part by part.
 *
 * @param entries Names and contents, in order.
 * @throws {RangeError} Where an entry or the archive takes 4 GiB or more, or there are 65,535 entries.
 */
export async function* zipParts(
  entries: Iterable<readonly [string, Uint8Array]> | AsyncIterable<readonly [string, Uint8Array]>,
): AsyncGenerator<Uint8Array> {
  const directory: Uint8Array[] = [];
  let at = 0;
  for await (const [name, bytes] of entries) {
    const fields = fieldsOf(name, bytes), start = at;
    const header = record([0x04034b50, 4], ...fields, [0, 2]),
      text = new TextEncoder().encode(name);
    yield* [header, text, bytes];
    at += header.length + text.length + bytes.length;
    requireSmall(at, `entry "${name}"`);
    directory.push(
      record([0x02014b50, 4], [20, 2], ...fields, [0, 2], [0, 2], [0, 2], [0, 2], [0, 4], [
        start,
        4,
      ]),
      text,
    );
  }
  const count = directory.length / 2;
  if (count >= 0xffff) throw new RangeError(`Cannot write an archive of ${count} entries`);
  const length = directory.reduce((sum, part) => sum + part.length, 0);
  yield* directory;
  yield record([0x06054b50, 4], [0, 2], [0, 2], [count, 2], [count, 2], [length, 4], [at, 4], [
    0,
    2,
  ]);
}

type Field = readonly [value: number, bytes: 2 | 4];

/** Fields that an entry's header and the directory have alike. */
function fieldsOf(name: string, bytes: Uint8Array): Field[] {
  requireSmall(bytes.length, `entry "${name}"`);
  const nameBytes = new TextEncoder().encode(name).length;
  // Version 2.0, names in UTF-8, stored.
  const start: Field[] = [[20, 2], [0x800, 2], [0, 2], [0, 2], [DATE, 2]];
  return [...start, [crc32(bytes), 4], [bytes.length, 4], [bytes.length, 4], [nameBytes, 2]];
}

function requireSmall(bytes: number, what: string): void {
  if (bytes < MAX_FIELD) return;
  throw new RangeError(`Cannot write ${what} into an archive of 4 GiB or more`);
}

function record(...fields: Field[]): Uint8Array {
  const bytes = new Uint8Array(fields.reduce((sum, [, n]) => sum + n, 0));
  const view = new DataView(bytes.buffer);
  let at = 0;
  for (const [value, n] of fields) {
    if (n === 2) view.setUint16(at, value, true);
    else view.setUint32(at, value, true);
    at += n;
  }
  return bytes;
}
