/** Parts of matrices: a rank reads its own, and holds no more of a file. */

/** From `begin` to before `end`. */
type Range = readonly [begin: number, end: number];

/** A part of a matrix of (rows, columns), or of a vector of rows: ranges one behind the other, null for all. */
export interface WeightPart {
  readonly rows: readonly Range[] | null;
  readonly columns: readonly Range[] | null;
}

/** Elements, of which so many lie in so many bytes: those of a block, or one. */
export interface ElementUnit {
  readonly elements: number;
  readonly bytes: number;
}

/** The shape of a part. */
export function partShape(shape: readonly number[], { rows, columns }: WeightPart): number[] {
  const [count, width] = shape as [number, number?];
  const own = rows ? lengthOf(rows) : count;
  return width === undefined ? [own] : [own, columns ? lengthOf(columns) : width];
}

/** The same part of the transposed matrix. */
export function transposedPart({ rows, columns }: WeightPart): WeightPart {
  return { rows: columns, columns: rows };
}

function lengthOf(ranges: readonly Range[]): number {
  return ranges.reduce((sum, [begin, end]) => sum + end - begin, 0);
}

/** True where no unit is divided. */
export function fitsUnits({ columns }: WeightPart, { elements }: ElementUnit): boolean {
  return columns?.flat().every((edge) => edge % elements === 0) ?? true;
}

/** Bytes that are read at once where a part of each row is wanted. */
const CHUNK_BYTES = 2 ** 24;

/**
 * Reads the bytes of a part; its columns begin and end with a unit.
 *
 * @param read Reads a tensor's bytes from one place to another.
 * @param shape Of the whole tensor.
 */
export async function readPart(
  read: (begin: number, end: number) => Promise<Uint8Array>,
  shape: readonly number[],
  part: WeightPart,
  unit: ElementUnit,
): Promise<Uint8Array<ArrayBuffer>> {
  const [count, width = 1] = shape as [number, number?];
  const bytesOf = (elements: number): number => elements / unit.elements * unit.bytes;
  const rows = part.rows ?? [[0, count]], columns = part.columns ?? [[0, width]];
  const rowBytes = bytesOf(width), ownBytes = bytesOf(lengthOf(columns));
  const out = new Uint8Array(lengthOf(rows) * ownBytes);
  const chunk = Math.max(1, Math.floor(CHUNK_BYTES / rowBytes));
  let at = 0;
  for (const [begin, end] of rows) {
    for (let row = begin; row < end; row += chunk) {
      const next = Math.min(end, row + chunk);
      const bytes = await read(row * rowBytes, next * rowBytes);
      for (let from = 0; from < bytes.length; from += rowBytes) {
        for (const [first, last] of columns) {
          out.set(bytes.subarray(from + bytesOf(first), from + bytesOf(last)), at);
          at += bytesOf(last - first);
        }
      }
    }
  }
  return out;
}
