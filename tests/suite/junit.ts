/** How many tests a run had. */
export interface Counts {
  readonly all: number;
  readonly ignored: number;
  readonly failed: number;
}

/** Counts the tests in a report of `deno test --junit-path`. */
export function countTests(xml: string): Counts {
  const count = (element: RegExp): number => xml.match(element)?.length ?? 0;
  return {
    all: count(/<testcase\b/g),
    ignored: count(/<skipped\b/g),
    failed: count(/<(failure|error)\b/g),
  };
}

/** All tests of several runs. */
export function addUp(runs: readonly Counts[]): Counts {
  const sum = (name: keyof Counts): number => runs.reduce((total, run) => total + run[name], 0);
  return { all: sum("all"), ignored: sum("ignored"), failed: sum("failed") };
}
