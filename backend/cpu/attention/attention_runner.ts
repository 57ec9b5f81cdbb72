/**
 * Attention on the host: small graphs for tiles of queries, one tile after another, so that memory is there
 * for the scores of a tile and not for all.
 *
 * This folder (`attention/`) imports `script/`, `schedule/`, `kernel/` and `graph/`. Attention
 * kernels come from
 * `cpu_backend.ts`; the kernels of its small graphs go back to it to be run.
 */
import type { BufferHandle, HostBuffer } from "../../../memory/mod.ts";
import { type DType, dtypes, toBfloat16Bits } from "../../graph/dtype.ts";
import type { Node } from "../../graph/node.ts";
import {
  type AttentionKernel,
  type HeadMatrix,
  headsOf,
  startOfHead,
} from "../../kernel/attention.ts";
import type { Kernel } from "../../kernel/kernel.ts";
import { arrayOf, type HostBlock, type Runner } from "../script/runner.ts";
import { type Operand, planTile, type Tile, type TilePlan } from "./tile_graph.ts";

/** Up to so many scores everything is one tile; else a tile has so many. */
const MAX_SCORES = 2 ** 20, TILE_SCORES = 2 ** 18;

/** Its needs of its backend. */
export interface AttentionHost {
  runnerOf(kernel: Kernel): Runner;
  allocate(nbytes: number): BufferHandle<HostBuffer>;
}

/** A tile's plan with its runners. */
interface Prepared extends TilePlan {
  readonly runners: readonly Runner[];
}

/** The runner of attention. */
export function attentionRunner(kernel: AttentionKernel, host: AttentionHost): Runner {
  const tiles = tilesOf(kernel);
  const prepared = new Map<string, Prepared>();
  const planOf = (tile: Tile): Prepared => {
    const key = keyOf(kernel, tile);
    let plan = prepared.get(key);
    if (!plan) prepared.set(key, plan = prepare(planTile(kernel, tile), host));
    return plan;
  };
  const source = planOf(tiles[0]!).runners.map((runner) => runner.source).join("\n\n");
  return {
    source,
    run: (inputs, outputs) => new Run(kernel, host, inputs, outputs).run(tiles, planOf),
  };
}

function tilesOf(kernel: AttentionKernel): Tile[] {
  const { lead, queries, keys } = kernel, heads = headsOf(kernel);
  if (heads * queries * keys <= MAX_SCORES) {
    return [{ lead, head: 0, row: 0, rows: queries, isFirst: true }];
  }
  const most = Math.max(1, Math.floor(TILE_SCORES / keys));
  const tiles: Tile[] = [];
  for (let head = 0; head < heads; head++) {
    for (let row = 0; row < queries; row += most) {
      const rows = Math.min(most, queries - row);
      tiles.push({ lead: [], head, row, rows, isFirst: row === 0 });
    }
  }
  return tiles;
}

/** Tiles with equal keys have the same kernels. */
function keyOf({ isCausal, dropout }: AttentionKernel, tile: Tile): string {
  const { rows, isFirst, row, head } = tile;
  return [rows, isFirst, isCausal || dropout ? row : "", dropout ? head : ""].join();
}

function prepare(tile: TilePlan, host: AttentionHost): Prepared {
  const runners = tile.plan.kernels.map(({ kernel }) => host.runnerOf(kernel as Kernel));
  return { ...tile, runners };
}

type Block = BufferHandle<HostBuffer>;

class Run {
  readonly #kernel: AttentionKernel;
  readonly #host: AttentionHost;
  readonly #inputs: readonly HostBlock[];
  readonly #outputs: readonly HostBlock[];
  /** The gradients of a head's keys and values so far, by output. */
  readonly #sums = new Map<number, Block>();

  constructor(
    kernel: AttentionKernel,
    host: AttentionHost,
    inputs: readonly HostBlock[],
    outputs: readonly HostBlock[],
  ) {
    this.#kernel = kernel;
    this.#host = host;
    this.#inputs = inputs;
    this.#outputs = outputs;
  }

  run(tiles: readonly Tile[], planOf: (tile: Tile) => Prepared): void {
    try {
      tiles.forEach((tile, k) => {
        this.#tile(tile, planOf(tile));
        const next = tiles[k + 1];
        if (!next || next.head !== tile.head) this.#storeSums(tile);
      });
    } finally {
      for (const block of this.#sums.values()) block.release();
    }
  }

  #tile(tile: Tile, { plan, runners, operands, results }: Prepared): void {
    const places: HostBlock[] = [], scratch = new Map<number, Block>();
    const { order, temporaries } = plan;
    for (const [at, name] of operands) places[at] = this.#operand(name, order[at]!, tile);
    for (const [output, at] of results) {
      if (!this.#isSum(output)) places[at] = this.#result(output, order[at]!, tile);
    }
    const placeOf = (at: number): HostBlock => {
      const known = places[at] ?? scratch.get(at);
      if (known) return known;
      const made = this.#host.allocate(bytesOf(order[at] ?? temporaries[at - order.length]!));
      scratch.set(at, made);
      return made;
    };
    try {
      plan.kernels.forEach(({ inputs, outputs, dying }, k) => {
        runners[k]!.run(inputs.map(placeOf), outputs.map(placeOf));
        for (const at of dying) {
          scratch.get(at)?.release();
          scratch.delete(at);
        }
      });
      for (const [output, at] of results) {
        if (this.#isSum(output)) this.#keepSum(output, at, scratch);
      }
    } finally {
      for (const block of scratch.values()) block.release();
    }
  }

  /** Makes the present scratch block the sum of an output. */
  #keepSum(output: number, at: number, scratch: Map<number, Block>): void {
    this.#sums.get(output)?.release();
    this.#sums.set(output, scratch.get(at)!);
    scratch.delete(at);
  }

  /** True for outputs that are added up over tiles. */
  #isSum(output: number): boolean {
    return output > 0 && this.#kernel.backward !== null;
  }

  #operand(name: Operand, { size, dtype }: Node, tile: Tile): HostBlock {
    const { query, key, value, mask, backward } = this.#kernel;
    if (name === "keyBefore") return this.#sums.get(1)!;
    if (name === "valueBefore") return this.#sums.get(2)!;
    const matrices = { query, key, value, mask: mask?.at, ...backward };
    const at: HeadMatrix = matrices[name]!;
    const row = name === "key" || name === "value" ? 0 : tile.row;
    const start = startOfHead(this.#kernel, at, tile.head) + row * at.row;
    return partOf(this.#inputs[at.input]!, dtype, start, size);
  }

  /** Destination of a result. */
  #result(output: number, { size, dtype }: Node, tile: Tile): HostBlock {
    const place = this.#kernel.stored.indexOf(output);
    const columns = size / tile.rows / tile.lead.reduce((a, b) => a * b, 1);
    const row = tile.head * this.#kernel.queries + tile.row;
    return partOf(this.#outputs[place]!, dtype, row * columns, size);
  }

  /** The sums of a head become outputs, in their type. */
  #storeSums(tile: Tile): void {
    for (const [output, block] of this.#sums) {
      const place = this.#kernel.stored.indexOf(output);
      const { dtype } = this.#kernel.outputs[place]!;
      const sums = arrayOf(block, "float32") as Float32Array;
      const into = this.#outputs[place]!;
      const part = arrayOf(partOf(into, dtype, tile.head * sums.length, sums.length), dtype);
      if (dtype !== "bfloat16") (part as Float32Array).set(sums);
      else sums.forEach((sum, k) => part[k] = toBfloat16Bits(sum));
      block.release();
    }
    this.#sums.clear();
  }
}

function bytesOf({ size, dtype }: { readonly size: number; readonly dtype: DType }): number {
  return size * dtypes[dtype].bytes;
}

/** A part of a block, by elements. */
function partOf(block: HostBlock, dtype: DType, start: number, size: number): HostBlock {
  const { bytes } = dtypes[dtype];
  return { base: block.base, offset: block.offset + start * bytes, nbytes: size * bytes };
}
