/** Finds the best tile of a contraction on a device. */
import { splitK } from "../../backend/schedule/passes/split_k.ts";
import type { Target, Tuned } from "../../backend/kernel/target.ts";
import type { OpenCLBackend } from "../../backend/opencl/runtime/opencl_backend.ts";
import { contractionMatch, sumParts } from "../../backend/opencl/templates/generate.ts";
import { candidateParts, candidateTiles, currentTile, tileText } from "./candidates.ts";
import { median, Trial } from "./trial.ts";
import type { ContractionWork } from "./works.ts";

/** The time of a search, and the least gain that counts. */
export interface TuneOptions {
  /** For one contraction; what is compiled comes on top. */
  readonly seconds: number;
  /** By how much a tile must be faster than the default, as a share of its time. */
  readonly gain: number;
}

/** The result for one shape. */
export interface Finding {
  readonly work: ContractionWork;
  /** The default and the fastest, in words. */
  readonly first: string;
  readonly best: string;
  /** Milliseconds of a call of each. */
  readonly times: readonly [first: number, best: number];
  /** The stored entry: an empty one where the default is as fast. */
  readonly found: Tuned;
  readonly isBetter: boolean;
}

/** The default and its best rival. */
interface Duel {
  readonly rival: number;
  readonly times: readonly [first: number, best: number];
}

/** Factor of the best time beyond which a candidate is out. */
const STILL_IN = 1.2;
const MIN_ROUNDS = 3, MAX_ROUNDS = 9, DUEL_ROUNDS = 9;

/** Tunes a contraction: in how many parts, where that is a question, then the tile of a part. */
export async function* tuneContraction(
  backend: OpenCLBackend,
  work: ContractionWork,
  options: TuneOptions,
): AsyncGenerator<Finding> {
  const target = { ...backend.target, tuned: new Map<string, Tuned>() };
  const usual = sumParts(work.kernel, target);
  const length = work.shape.k.reduce((a, b) => a * b, 1);
  const { template, plan } = contractionMatch(work.kernel, target);
  const counts = candidateParts(length, template.workItems(plan), target.computeUnits);
  let best = usual;
  if (counts.some((parts) => parts !== usual)) {
    const ways = [...new Set([usual, ...counts])].map((parts) => ({
      way: { parts },
      text: parts === 1 ? "one sum" : `${parts} parts`,
      kept: { parts },
    }));
    const finding = await compare(backend, work, ways, { parts: undefined }, options);
    yield finding;
    if (finding.isBetter) best = finding.found.parts as number;
  }
  const part = partOf(work, best, target);
  const tiles = [currentTile(part.shape, target), ...candidateTiles(part.shape, target)];
  const byText = new Map(tiles.map((tile) => [tileText(tile), tile]));
  if (byText.size === 1) return;
  const ways = [...byText].map(([text, tile]) => ({
    way: { tile, parts: 1 },
    text,
    kept: { tile },
  }));
  yield await compare(backend, part, ways, { tile: undefined }, options);
}

/** The part that one launch computes of a contraction that is divided in parts. */
function partOf(work: ContractionWork, parts: number, target: Target): ContractionWork {
  const split = parts > 1 ? splitK(work.kernel, parts) : null;
  const shape = split && contractionMatch(split.partial, target).plan.shape;
  if (split === null || shape === null) return work;
  return {
    name: `${work.name} (a part)`,
    kernel: split.partial,
    shape,
    inputs: work.inputs,
    outputs: split.partial.outputs,
  };
}

/** One way to compute a contraction: how it is built, its name, and what is kept if it is best. */
interface Way {
  readonly way: Tuned;
  readonly text: string;
  readonly kept: Tuned;
}

async function compare(
  backend: OpenCLBackend,
  work: ContractionWork,
  ways: readonly Way[],
  nothing: Tuned,
  { seconds, gain }: TuneOptions,
): Promise<Finding> {
  using trial = new Trial(backend, work, ways.map(({ way }) => way));
  const { rival, times } = await fastest(trial, seconds);
  const isBetter = rival > 0 && times[0] > times[1] * (1 + gain);
  return {
    work,
    first: ways[0]!.text,
    best: ways[isBetter ? rival : 0]!.text,
    times: isBetter ? times : [times[0], times[0]],
    found: isBetter ? ways[rival]!.kept : nothing,
    isBetter,
  };
}

/** Interleaved rounds over all ways that are still in the race; then the first against the best. */
async function fastest(trial: Trial, seconds: number): Promise<Duel> {
  let [, ...rivals] = await trial.sound();
  const sample = Math.min(5, seconds * 1e3 / (2 * MIN_ROUNDS * (rivals.length + 1)));
  const calls = await callsIn(trial, sample);
  if (rivals.length === 0) {
    const time = await trial.time(0, calls);
    return { rival: 0, times: [time, time] };
  }
  const times: number[][] = [];
  const end = performance.now() + seconds * 500;
  const timeOf = (way: number): number => median(times[way]!);
  for (let round = 0; round < MAX_ROUNDS; round++) {
    if (round >= MIN_ROUNDS && performance.now() > end) break;
    for (const way of [0, ...rivals]) (times[way] ??= []).push(await trial.time(way, calls));
    rivals.sort((a, b) => timeOf(a) - timeOf(b));
    const limit = STILL_IN * Math.min(timeOf(0), timeOf(rivals[0]!));
    rivals = rivals.filter((way, place) => place === 0 || timeOf(way) < limit);
  }
  const [rival] = rivals as [number];
  // The fastest of many may be noise: it is timed against the default once more.
  const duel: [number[], number[]] = [[], []];
  for (let round = 0; round < DUEL_ROUNDS; round++) {
    duel[0].push(await trial.time(0, calls));
    duel[1].push(await trial.time(rival, calls));
  }
  return { rival, times: [median(duel[0]), median(duel[1])] };
}

/** The number of calls that last so many milliseconds; a single one is mostly waiting for its end. */
async function callsIn(trial: Trial, milliseconds: number): Promise<number> {
  const single = await trial.time(0, 1);
  const several = await trial.time(0, Math.ceil(milliseconds / 4 / single));
  return Math.ceil(milliseconds / several);
}
