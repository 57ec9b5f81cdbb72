/** Products with packed weights, and the errors of what the interpreter makes of them. */
import { assertEquals } from "@std/assert";
import { type BlockFormatName, formatTable } from "../../../../../backend/formats/block_formats.ts";
import { blockBytes, fieldPlaces } from "../../../../../backend/formats/block_format.ts";
import { hostBlocks } from "../../../../../backend/formats/host_blocks.ts";
import type { Gemv } from "../../../../../backend/tile/programs/packed/gemv.ts";
import type { TileKernel } from "../../../../../backend/tile/language/statements.ts";
import { interpret, type Report } from "../../interpreter.ts";

/** A product with its operands. */
export interface Sample {
  readonly product: Gemv;
  readonly x: Float32Array<ArrayBuffer>;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** A product whose matrix is the last rows of a larger one. */
export function sample(
  format: BlockFormatName,
  rows: number,
  columns: number,
  terms: number,
): Sample {
  const { elements } = formatTable[format], all = columns + 1, blocks = all * terms / elements;
  const bytes = Uint8Array.from(
    { length: blocks * blockBytes(formatTable[format]) },
    (_, k) => Math.imul(k + 7, 2654435761) >>> 24,
  );
  // Upper bits of no byte of floats: all are finite, and none is large.
  for (const [name, { start, bytes: size }] of Object.entries(fieldPlaces(formatTable[format]))) {
    if (!["scale", "minimum"].includes(name) && !format.startsWith("float8")) continue;
    const field = bytes.subarray(start * blocks, (start + size) * blocks);
    field.forEach((byte, k) => field[k] = byte & 0x3b);
  }
  const x = Float32Array.from({ length: 3 + rows * terms }, (_, k) => Math.sin(0.7 * k));
  const product: Gemv = {
    format,
    rows,
    columns,
    terms,
    x: {
      ...{ name: "x", element: "float32", offset: 3 },
      rows: rows > 1 ? [{ size: rows, step: terms }] : [],
      terms: [{ size: terms, step: 1 }],
    },
    w: { name: "w", blocks, offset: terms },
  };
  return { product, x, bytes };
}

/** Runs a kernel by the interpreter. */
export const run = (kernel: TileKernel, { x, bytes }: Sample): Report =>
  interpret(kernel, { x: x.buffer, w: bytes.buffer });

/** The largest error of a report's results, in parts of the largest sum of absolute values. */
export function errorOf({ results }: Report, { product, x, bytes }: Sample): number {
  const { format, rows, columns, terms, w } = product, reader = hostBlocks(format);
  let worst = 0, largest = 0;
  for (let i = 0; i < rows; i++) {
    for (let j = 0; j < columns; j++) {
      let sum = 0, size = 0;
      for (let k = 0; k < terms; k++) {
        const p = x[3 + i * terms + k]! * reader.element(bytes, w.blocks, w.offset + j * terms + k);
        sum += p;
        size += Math.abs(p);
      }
      const found = results.get(`${i},${j}`) ?? NaN;
      worst = Math.max(worst, Number.isNaN(found) ? Infinity : Math.abs(found - sum));
      largest = Math.max(largest, size);
    }
  }
  assertEquals(results.size, rows * columns);
  return worst / largest;
}
