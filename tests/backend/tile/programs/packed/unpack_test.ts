/** The program of copies of packed weights, for every unit, as the interpreter runs it. */
import { assertEquals } from "@std/assert";
import { blockBytes } from "../../../../../backend/formats/block_format.ts";
import { type BlockFormatName, formatTable } from "../../../../../backend/formats/block_formats.ts";
import { hostBlocks } from "../../../../../backend/formats/host_blocks.ts";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import { canUnpack, unpack } from "../../../../../backend/tile/programs/packed/unpack.ts";
import { itemUnit, vectorUnit } from "../../../../../backend/tile/units.ts";
import { interpret } from "../../interpreter.ts";

const names = Object.keys(formatTable) as BlockFormatName[];

Deno.test("unpack gives each element once, as the host reads it, of all formats, on every unit", () => {
  for (const unit of [vectorUnit(4), vectorUnit(16), itemUnit("local")]) {
    for (const format of names) {
      const { elements } = formatTable[format], count = 512, offset = 256;
      const blocks = (offset + count) / elements;
      const bytes = Uint8Array.from(
        { length: blocks * blockBytes(formatTable[format]) },
        (_, k) => (Math.imul(k + 3, 2654435761) >>> 24) & 0xbb,
      );
      const copy = { format, count, w: { name: "w", blocks, offset } };
      assertEquals(canUnpack(copy, unit), true);
      let sizes = 0;
      const kernel = withExpressions(() => unpack(copy, unit, () => `p${sizes++}`));
      const { faults, results } = interpret(kernel, { w: bytes.buffer });
      const what = `${format}, ${unit.name}`, reader = hostBlocks(format);
      assertEquals([...faults], [], what);
      assertEquals(results.size, count, what);
      for (let k = 0; k < count; k++) {
        assertEquals(
          results.get(`${k}`),
          reader.element(bytes, blocks, offset + k),
          `${what}[${k}]`,
        );
      }
    }
  }
});

Deno.test("Unpack: a copy that begins inside a block is refused", () => {
  const copy = { format: "Q4_0", count: 64, w: { name: "w", blocks: 8, offset: 16 } } as const;
  assertEquals(canUnpack(copy, vectorUnit(16)), false);
});
