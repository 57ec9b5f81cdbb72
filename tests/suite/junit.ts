/** The outcome of a file of tests. */
export interface Report {
  readonly name: string;
  readonly counts: Counts;
  /** Of each test that failed, its name and the first line of its error. */
  readonly failures: readonly string[];
  /** The time of its tests together. */
  readonly seconds: number;
}

/** The number of tests of a run. */
export interface Counts {
  readonly all: number;
  readonly ignored: number;
  readonly failed: number;
}

/** The text in front of the names of a file's tests where several files share a process. */
export function prefixOf(file: string): string {
  return `${file}: `;
}

/** A report of `deno test --junit-path`, by the files of which the process ran the tests. */
export function reportsOf(xml: string, files: readonly string[]): Report[] {
  const tests = xml.match(/<testcase\b[^]*?<\/testcase>/g) ?? [];
  return files.map((name) => {
    const start = `<testcase name="${prefixOf(name)}`;
    const own = files.length === 1 ? tests : tests.filter((test) => test.startsWith(start));
    const count = (element: RegExp): number => own.filter((test) => element.test(test)).length;
    return {
      name,
      counts: {
        all: own.length,
        ignored: count(/<skipped\b/),
        failed: count(/<(failure|error)\b/),
      },
      failures: own.flatMap(failureOf).map((failure) => failure.replace(prefixOf(name), "")),
      seconds: own.reduce((sum, test) => sum + secondsOf(test), 0),
    };
  });
}

function failureOf(test: string): string[] {
  const [, message] = /<(?:failure|error) message="\s*([^"\n]*)/.exec(test) ?? [];
  const [, name] = /^<testcase name="([^"]*)/.exec(test)!;
  return message === undefined ? [] : [plainText(`${name}: ${message}`)];
}

const ENTITIES: Readonly<Record<string, string>> = {
  quot: '"',
  apos: "'",
  lt: "<",
  gt: ">",
  amp: "&",
};

const plainText = (xml: string): string =>
  xml.replace(/&(\w+);/g, (whole, name) => ENTITIES[name] ?? whole);

/** A step is part of its test's time. */
function secondsOf(test: string): number {
  return /^<testcase name="[^"]* &gt; /.test(test)
    ? 0
    : Number(/ time="([^"]*)"/.exec(test)?.[1] ?? 0);
}

/** All tests of several runs. */
export function addUp(runs: readonly Counts[]): Counts {
  const sum = (name: keyof Counts): number => runs.reduce((total, run) => total + run[name], 0);
  return { all: sum("all"), ignored: sum("ignored"), failed: sum("failed") };
}
