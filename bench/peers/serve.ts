/**
 * The loop of a peer in TypeScript: it reads requests, `KIND SIZE SAMPLES MILLISECONDS [VARIANT]` a
 * line, and answers each with a line of JSON, {work, value, unit}: the median seconds of a call, or a
 * count. It keeps what the last request needed, for the next round asks for the same.
 */
import { createInterface } from "node:readline";
import process from "node:process";

/** A work, ready to run. */
export interface Runnable {
  readonly run: () => unknown;
  /** Waits for what was run. */
  readonly sync?: () => unknown;
  readonly close?: () => void;
}

/** A work whose figure is found in its own way: a count, or the seconds of what happens once. */
export interface Countable {
  readonly count: () => number | Promise<number>;
  readonly close?: () => void;
}

/** Makes a work of a size ready. */
export type Maker = (
  size: number,
  variant: string | undefined,
) => Runnable | Countable | Promise<Runnable | Countable>;

async function repeat({ run, sync }: Runnable, calls: number): Promise<number> {
  const began = performance.now();
  for (let call = 0; call < calls; call++) {
    const pending = run();
    if (pending instanceof Promise) await pending;
  }
  await sync?.();
  return (performance.now() - began) / calls;
}

/** The median seconds of a call over samples that each last at least so long. */
async function time(
  work: Runnable,
  samples: number,
  milliseconds: number,
  isNew: boolean,
): Promise<number> {
  // What the first call makes is no part of a warm-up; V8 needs some hundred calls of new code.
  let best = await repeat(work, 1);
  const warm = performance.now() + (isNew ? Math.max(60 * milliseconds, 500) : 10 * milliseconds);
  while (performance.now() < warm) best = Math.min(best, await repeat(work, 1));
  const calls = Math.max(1, Math.min(100_000, Math.ceil(milliseconds / best)));
  const times: number[] = [];
  while (times.length < samples) times.push(await repeat(work, calls));
  return times.sort((a, b) => a - b)[samples >> 1]! / 1e3;
}

function print(answer: Record<string, unknown>): void {
  console.log(JSON.stringify(answer));
}

/** Answers requests until there are no more. */
export async function serve(peer: string, makers: Record<string, Maker>): Promise<never> {
  print({ peer });
  let ready = ["", { run: () => {} }] as [key: string, work: Runnable | Countable];
  for await (const line of createInterface({ input: process.stdin })) {
    const [kind, size, samples, milliseconds, variant] = line.split(" ");
    const make = makers[kind!];
    const key = [kind, size, variant].join(" ").trim();
    try {
      if (make === undefined) throw new Error("not offered");
      const isNew = ready[0] !== key;
      if (isNew) {
        ready[1].close?.();
        ready = ["", { run: () => {} }];
        ready = [key, await make(Number(size), variant)];
      }
      const work = ready[1];
      if ("count" in work) print({ work: key, value: await work.count(), unit: "count" });
      else {
        const value = await time(work, Number(samples), Number(milliseconds), isNew);
        print({ work: key, value, unit: "s" });
      }
    } catch (error) {
      print({ work: key, error: error instanceof Error ? error.message : String(error) });
    }
  }
  Deno.exit(0); // some peers keep workers, which would keep the process
}

/** Numbers in [-0.5, 0.5), the same for a seed. */
export function randomNumbers(count: number, seed = 1): Float32Array<ArrayBuffer> {
  let state = seed >>> 0;
  return Float32Array.from({ length: count }, () => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return state / 2 ** 32 - 0.5;
  });
}
