/** Runs convolutions and gradients of their kernels by minimal filtering: tile programs, and memory between them. */
import type { WindowProduct } from "../../../kernel/forms/window_product.ts";
import type { TileKernel } from "../../../tile/language/statements.ts";
import {
  filteringOf,
  GROUP_ROOM,
  GROUP_ROWS,
  PANEL_COLUMNS,
  pitchOf,
  planeOf,
  POINTS,
  roomOf,
} from "../../../tile/programs/lanes/filtering_form.ts";
import {
  filteredConvolution,
  filteredKernels,
  SAMPLE,
} from "../../../tile/programs/lanes/filtering_convolution.ts";
import { gradientResults, gradientSums } from "../../../tile/programs/lanes/filtering_gradient.ts";
import type { GemmHost } from "../../blas/gemm_runner.ts";
import { arrayOf } from "../../script/runner.ts";
import type { Product } from "../products/contraction.ts";
import type { WasmRuntime } from "../runtime.ts";
import { floatsOf, namedCall, type TileCall } from "../tile/tile_call.ts";
import {
  chooseBlocks,
  choosePartTiles,
  convolutionCost,
  gradientCost,
  kernelCost,
} from "./costs.ts";

/**
 * The largest number of an image may be so many times the mean of their sizes: outputs that do not see it
 * are then off by less than 1e-5 of what is usual.
 */
const MAX_PEAK = 128;
/** Nanoseconds to turn the sums of a kernel into its gradient. */
const SUM_COST = 25;
/** Floats that planes of most products fit into, whose programs are one then. */
const COLUMN_ROOM = 2 ** 14, PRODUCT_ROOM = 2 ** 12, KERNEL_ROOM = 2 ** 15, GRADIENT_ROOM = 2 ** 14;

type Numbers = Readonly<Record<string, number>>;

/** A program of a form, its work-items, and about how many nanoseconds it takes on one core. */
interface Step {
  readonly form: string;
  readonly program: () => TileKernel;
  readonly groups: number;
  readonly cost: number;
}

/** Programs that run one after the other, and what they leave behind. */
export interface FilteringPlan {
  readonly cost: number;
  readonly numbers: Numbers;
  readonly steps: readonly Step[];
  /** Floats that the first programs leave to the last, and findings behind them. */
  readonly between: number;
  readonly findings: number;
  /** True where findings tell that results are precise. */
  readonly isPrecise: (findings: Float32Array) => boolean;
}

/** A product by minimal filtering, and about how many nanoseconds it takes on one core. */
export function filtered(
  product: WindowProduct,
  runtime: WasmRuntime,
  host: GemmHost,
): Product & { readonly cost: number } {
  const plan = planOf(product, runtime.threads.size);
  const { between, findings, cost, numbers } = plan;
  let calls: readonly TileCall[] | null = null;
  const call = ({ form, program, groups, cost }: Step): TileCall =>
    namedCall(form, program, groups, { outputs: 3, cost, numbers }, runtime);
  return {
    cost,
    hasEpilogue: false,
    source: `// WebAssembly SIMD: ${numbers.tiles} tiles of 4 x 4 by ${numbers.rows} ` +
      `${
        product.isGradient ? "gradients of kernels" : "kernels"
      } of ${numbers.channels} x 3 x 3, ` +
      `float32, minimal filtering`,
    run(a, b, c) {
      calls ??= plan.steps.map(call);
      const inputs = product.isSecond ? [b, a] : [a, b];
      return host.withScratch("float32", between + findings, (block) => {
        const outputs = [c, floatsOf(block, 0, between), floatsOf(block, between, findings)];
        return calls!.every((each) => each.run(inputs, outputs, host)) &&
          plan.isPrecise(arrayOf(outputs[2]!, "float32") as Float32Array);
      });
    },
  };
}

/** The programs of a product for so many threads. */
export const planOf = (product: WindowProduct, threads: number): FilteringPlan =>
  product.isGradient ? gradientPlan(product) : convolutionPlan(product, threads);

function convolutionPlan(product: WindowProduct, threads: number): FilteringPlan {
  const { form: given, numbers } = filteringOf(product), form = { ...given, isDivided: false };
  const { rows, channels, tiles, across, down, groups } = numbers as Record<string, number>;
  const panels = Math.ceil(tiles! / PANEL_COLUMNS), room = panels * PANEL_COLUMNS;
  const sizes = { panels, channels: channels!, outputs: rows! }, cost = convolutionCost(sizes);
  const { isFused, blocks, ...chosen } = chooseBlocks(sizes, threads);
  const blockTiles = chosen.panels * PANEL_COLUMNS, pitch = pitchOf(blockTiles);
  const kernelSize = channels! * GROUP_ROOM, kernelPlane = planeOf(groups! * kernelSize);
  const places = {
    columns: roomOf(channels! * pitch, COLUMN_ROOM),
    products: roomOf(chosen.held * GROUP_ROWS * pitch, PRODUCT_ROOM),
    kernels: isFused ? roomOf(chosen.held * kernelSize, KERNEL_ROOM) : null,
  };
  const own = isFused ? form : { ...form, run: null }, items = blocks * chosen.parts;
  return {
    cost,
    numbers: { ...numbers, ...chosen, blockTiles, pitch, room, kernelPlane },
    steps: [
      ...isFused ? [] : [{
        form: `kernels ${JSON.stringify(form)}`,
        program: () => filteredKernels(form),
        groups: groups!,
        cost: groups! * kernelCost(channels!),
      }],
      {
        form: `convolution ${JSON.stringify([own, places])}`,
        program: () => filteredConvolution(own, places),
        groups: items,
        cost,
      },
    ],
    between: isFused ? 1 : POINTS * kernelPlane,
    findings: 2 * room + items,
    isPrecise: (found) => {
      if (!areFinite(found.subarray(2 * room))) return false;
      const imageTiles = across! * down!, sampled = imageTiles * channels! * SAMPLE;
      for (let first = 0; first < tiles!; first += imageTiles) {
        let most = 0, sum = 0;
        for (let tile = first; tile < first + imageTiles; tile++) {
          most = Math.max(most, found[tile]!);
          sum += found[room + tile]!;
        }
        if (most > MAX_PEAK * sum / sampled) return false;
      }
      return true;
    },
  };
}

function gradientPlan(product: WindowProduct): FilteringPlan {
  const { form, numbers } = filteringOf(product);
  const { rows, channels, tiles, groups } = numbers as Record<string, number>;
  const sizes = { tiles: tiles!, channels: channels!, rows: rows! };
  const partTiles = choosePartTiles(sizes), parts = Math.ceil(tiles! / partTiles);
  const panels = Math.ceil(channels! / PANEL_COLUMNS), columns = panels * PANEL_COLUMNS;
  const pitch = pitchOf(columns), plane = planeOf(groups! * GROUP_ROWS * pitch);
  const room = {
    image: roomOf(partTiles * pitch, GRADIENT_ROOM),
    gradient: roomOf(partTiles * groups! * GROUP_ROOM, GRADIENT_ROOM),
  };
  const cost = gradientCost(sizes, parts), last = rows! * channels! * SUM_COST;
  const key = JSON.stringify([form, room]);
  return {
    cost: cost + last,
    numbers: { ...numbers, partTiles, parts, panels, columns, pitch, plane },
    steps: [
      {
        form: `gradient sums ${key}`,
        program: () => gradientSums(form, room),
        groups: parts,
        cost,
      },
      {
        form: `gradient ${JSON.stringify(form)}`,
        program: () => gradientResults(form),
        groups: rows!,
        cost: last,
      },
    ],
    between: parts * POINTS * plane,
    findings: rows!,
    isPrecise: areFinite,
  };
}

const areFinite = (found: Float32Array): boolean => !found.some((value) => value !== value);
