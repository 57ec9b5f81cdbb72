import type { Rung } from "./errors.ts";

/**
 * What was tried for one allocation, by everyone who had something to try: the pool, its wrappers,
 * the device's memory. Whoever makes the ladder settles it, once, so that an allocation is counted
 * once however many of them took part.
 */
export class RetryLadder {
  #rungs: { name: string; freedBytes: number }[] | null = null;
  #climbs: Map<string, number> | null = null;

  /** Whether nothing had to be tried. */
  get isEmpty(): boolean {
    return this.#rungs === null;
  }

  /** What was tried, in order, each step once with all bytes that became free by it. */
  get rungs(): readonly Rung[] {
    return (this.#rungs ?? []).map((rung) => ({ ...rung }));
  }

  /** By step: how often it was worth trying the allocation again. */
  get climbs(): ReadonlyMap<string, number> {
    return this.#climbs ?? new Map();
  }

  /**
   * Notes a step.
   *
   * @param name What was tried.
   * @param freedBytes Bytes that became free by it.
   * @param helped Whether the allocation is tried again.
   */
  note(name: string, freedBytes: number, helped: boolean = freedBytes > 0): void {
    const rungs = this.#rungs ??= [];
    const known = rungs.find((rung) => rung.name === name);
    if (known === undefined) rungs.push({ name, freedBytes });
    else known.freedBytes += freedBytes;
    if (!helped) return;
    const climbs = this.#climbs ??= new Map();
    climbs.set(name, (climbs.get(name) ?? 0) + 1);
  }
}
