/** Tells who asks how far the drivers are with compiling kernels: a first run waits for nothing else. */

/** Kernels that had to be compiled since somebody asked, and those of them that are. */
export interface BuildProgress {
  /** Kernels that no cache held. */
  readonly wanted: number;
  /** Those of them that are compiled. */
  readonly built: number;
}

/** Is told how far the compilation is. */
export type BuildObserver = (progress: BuildProgress) => void;

let wanted = 0, built = 0;

/** Those who asked, each with a function that tells it. */
const observers = new Set<() => void>();

/** Tells an observer, until the result is disposed of, whenever kernels are to be compiled or are. */
export function watchBuilds(observer: BuildObserver): Disposable {
  const before = built; // what is being compiled right now counts
  const tell = (): void => observer({ wanted: wanted - before, built: built - before });
  observers.add(tell);
  return { [Symbol.dispose]: () => void observers.delete(tell) };
}

/** True where somebody is told of builds. */
export const isWatchingBuilds = (): boolean => observers.size > 0;

/** Kernels whose compilation begins now. */
export function beginBuild(kernels: number): void {
  wanted += kernels;
  tellAll();
}

/** Kernels that are compiled, or whose compilation has failed. */
export function endBuild(kernels: number): void {
  built += kernels;
  tellAll();
}

function tellAll(): void {
  for (const tell of observers) tell();
}
