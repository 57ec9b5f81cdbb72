/**
 * The effect of every signal in every state: the table in the guide, and what the test holds true.
 */
import { type Delivery, type Ending, type Expected, run } from "./driver.ts";

/** A state that a program can be in when a signal comes. */
export interface State {
  readonly name: string;
  /** As the guide says it. */
  readonly title: string;
  /** The argument that makes the state last; a minute of work, where nothing shorter is said. */
  readonly lasting?: number;
  /** The argument that makes it pass by itself within a second. */
  readonly passing?: number;
  readonly graceMs: number;
  /** The due ends by one SIGINT, and by SIGTERM. */
  readonly once: Expected;
  readonly term: Expected;
}

/** A way to send signals. */
export interface Column {
  readonly title: string;
  readonly deliveries: readonly Delivery[];
  readonly ignored?: readonly Deno.Signal[];
}

const FIRST = 150, SECOND = 350;
/** For work that lasts: shorter than that, and than what code saves for. */
export const GRACE = 700;
const AMPLE = 10_000; // for work that passes: the window must not be what ends it
const AT_ONCE = [0, 4000] as const; // wide: the machine may be busy, and the ending tells the cause
/** The end of the grace window. */
export const AFTER_GRACE = [GRACE - 50, GRACE + 6000] as const;
/** The time that code saves after it was told. */
export const SAVING_MS = 2 * GRACE;
const AFTER_SAVING = [SAVING_MS - 50, SAVING_MS + 15_000] as const;
const AFTER_KERNEL = [100, 15_000] as const;
const AFTER_WORK = [0, 15_000] as const;

type Span = Expected["within"] & object;

const interrupted: Expected = { ending: "SIGINT", within: AT_ONCE };
const survives: Expected = { ending: "exit 0", within: [0, 15_000], said: "done" };
const killed: Expected = { ending: "SIGINT", within: AFTER_GRACE };
const left: Expected = { ending: "exit 130", within: AFTER_GRACE };
const saves: Expected = { ending: "exit 130", within: AFTER_SAVING, said: "saved" };
const savesSoon: Expected = { ...saves, within: AFTER_KERNEL };
const short: Partial<State> = { lasting: 1200, graceMs: AMPLE };
/** Each program takes a quarter of a second on PoCL, two on NVIDIA's driver. */
const builds: Partial<State> = { lasting: 1000, passing: 2, graceMs: AMPLE };

/** The contract. A second SIGINT ends everything at once, and SIGHUP under nohup nothing. */
const contract: Record<string, [title: string, once: Expected, term: Span, Partial<State>?]> = {
  idle: ["idle", killed, AT_ONCE],
  short: ["awaiting a short kernel", savesSoon, AFTER_KERNEL, short],
  long: ["awaiting a long kernel", left, AFTER_GRACE],
  "blocked-short": ["blocked in finishSync, short kernel", savesSoon, AFTER_KERNEL, short],
  blocked: ["blocked in finishSync, long kernel", left, AFTER_GRACE],
  reading: ["inside toHost, long kernel", left, AFTER_GRACE],
  building: ["building a program", { ...killed, within: AFTER_WORK }, AFTER_WORK, builds],
  worker: ["awaiting a worker", killed, AT_ONCE],
  busy: ["busy in JavaScript", killed, AFTER_GRACE],
  foreign: ["inside a foreign call", killed, AFTER_GRACE],
  catching: [
    "awaiting with `interruptible`, saving for longer than the grace window",
    saves,
    AT_ONCE,
  ],
  listening: ["idle, saving in a listener of `interruptSignal`", saves, AT_ONCE],
  unload: ["during unload", interrupted, AT_ONCE],
};

export const states: readonly State[] = Object.entries(contract).map(
  ([name, [title, once, within, more]]) => {
    return { name, title, once, term: { ending: "SIGTERM", within }, graceMs: GRACE, ...more };
  },
);

export const columns = {
  once: { title: "SIGINT", deliveries: [{ signal: "SIGINT", atMs: FIRST }] },
  twice: {
    title: "SIGINT twice",
    deliveries: [{ signal: "SIGINT", atMs: FIRST }, { signal: "SIGINT", atMs: SECOND }],
  },
  term: { title: "SIGTERM", deliveries: [{ signal: "SIGTERM", atMs: FIRST }] },
  hup: {
    title: "SIGHUP under nohup",
    deliveries: [{ signal: "SIGHUP", atMs: FIRST }],
    ignored: ["SIGHUP"],
  },
} as const satisfies Record<string, Column>;

export type ColumnName = keyof typeof columns;

/** The due end of a cell. */
export function expectedOf(state: State, column: ColumnName): Expected {
  if (column === "twice") return interrupted;
  return column === "hup" ? survives : state[column];
}

const PROGRAM = new URL("program.ts", import.meta.url);
const MINUTE = 60_000;

/** Runs one cell. */
export function runCell(state: State, name: ColumnName): Promise<Ending> {
  const { deliveries, ignored }: Column = columns[name];
  const argument = name === "hup" ? state.passing ?? 500 : state.lasting ?? MINUTE;
  return run(PROGRAM, {
    args: [state.name, String(argument)],
    env: { NETCL_SIGINT_GRACE_MS: String(state.graceMs) },
    deliveries,
    ...(ignored && { ignored }),
  });
}

/** The words of the guide for how a cell ends. */
export function cellText({ ending, within, said }: Expected): string {
  const when = within === AFTER_GRACE
    ? "after the grace window"
    : within === AFTER_WORK || within === AFTER_KERNEL
    ? "when the work is done"
    : ending === "exit 0"
    ? "as if nothing had come"
    : "at once";
  return said === "saved" ? `your code saves, ${ending}` : `${ending} ${when}`;
}

/** The table in the guide. */
export function markdownTable(): string {
  const names = Object.keys(columns) as ColumnName[];
  const rows = states.map((state) => [
    state.title,
    ...names.map((name) => cellText(expectedOf(state, name))),
  ]);
  const header = ["state", ...names.map((name) => columns[name].title)];
  return [header, header.map(() => "---"), ...rows]
    .map((cells) => `| ${cells.join(" | ")} |`).join("\n");
}

if (import.meta.main) console.log(markdownTable());
