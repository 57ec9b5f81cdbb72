/** Loops over the symbols of a kernel, cut into blocks where long sums are. */
import type { Blocks } from "../kernel/accumulation.ts";
import type { Emitter } from "./emit.ts";

/** Opens the loop over a symbol: all of it, or the part that this row was given. */
export function openLoop(emitter: Emitter, symbol: number): void {
  emitter.open(emitter.dialect.loopHead(`i${symbol}`, ...boundsOf(emitter, symbol)));
}

/** Bounds of the loop over a symbol: all of it, or the part that this row was given. */
export function boundsOf(
  emitter: Emitter,
  symbol: number,
): [start: string, end: string] {
  const { chunk } = emitter.kernel;
  const size = emitter.size(symbol);
  if (chunk?.symbol !== symbol) return ["0", size];
  const length = emitter.index(chunk.length);
  const start = `i${chunk.part} * ${length}`;
  return [start, emitter.dialect.smaller(`${start} + ${length}`, size)];
}

/** Opens a loop over the blocks of a symbol's loop, and gives the bounds of the loop within. */
export function openBlocks(
  emitter: Emitter,
  { symbol, length }: Blocks,
): [start: string, end: string] {
  const bounds = boundsOf(emitter, symbol), step = emitter.index(length), block = `b${symbol}`;
  emitter.open(emitter.dialect.loopHead(block, ...bounds, step));
  return [block, emitter.dialect.smaller(`${block} + ${step}`, `e${block}`)];
}

/** Statements before and after the iterations of each block of a loop. */
interface InBlocks {
  readonly blocks: Blocks | null;
  begin(): void;
  end(): void;
}

/** Runs a body in the loops over symbols, one of which may be cut into blocks. */
export function walk(
  emitter: Emitter,
  symbols: readonly number[],
  sums: InBlocks | null,
  body: () => void,
): void {
  for (const s of symbols) {
    if (sums?.blocks?.symbol !== s) openLoop(emitter, s);
    else {
      const bounds = openBlocks(emitter, sums.blocks);
      sums.begin();
      emitter.open(emitter.dialect.loopHead(`i${s}`, ...bounds));
    }
  }
  body();
  for (const s of symbols.toReversed()) {
    emitter.close();
    if (sums?.blocks?.symbol !== s) continue;
    sums.end();
    emitter.close();
  }
}
