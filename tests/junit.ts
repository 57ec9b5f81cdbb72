/** How many tests a run had. */
export interface Counts {
  readonly all: number;
  readonly ignored: number;
}

/** Counts the tests in a report of `deno test --junit-path`. */
export function countTests(xml: string): Counts {
  return {
    all: xml.match(/<testcase\b/g)?.length ?? 0,
    ignored: xml.match(/<skipped\b/g)?.length ?? 0,
  };
}
