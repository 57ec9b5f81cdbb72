/**
 * The effect of every signal in every state: the table in the guide, and what the test holds true.
 */
import { type Delivery, describe, type Ending, run } from "./driver.ts";

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
}

/** A way to send signals. */
export interface Column {
  readonly title: string;
  readonly deliveries: readonly Delivery[];
  readonly ignored?: readonly Deno.Signal[];
}

/** The due end of a cell. */
export interface Expected {
  /** As `describe` says it. */
  readonly ending: string;
  /** Milliseconds after the last signal: at least, at most. */
  readonly within: readonly [number, number];
  /** The output of the program after "ready". */
  readonly said: "" | "saved" | "done";
}

const FIRST = 150, SECOND = 350;
const GRACE = 700; // for work that lasts
const AMPLE = 10_000; // for work that passes: the window must not be what ends it
const AT_ONCE = [0, 4000] as const; // wide: the machine may be busy, and the ending tells the cause
const AFTER_GRACE = [GRACE - 50, GRACE + 6000] as const;
/** The time that code saves after it was told. */
export const SAVING_MS = 2 * GRACE;
const AFTER_SAVING = [SAVING_MS - 50, SAVING_MS + 15_000] as const;
const AFTER_KERNEL = [100, 15_000] as const;
const AFTER_WORK = [0, 15_000] as const;

export const states: readonly State[] = [
  { name: "idle", title: "idle", graceMs: GRACE },
  { name: "short", title: "awaiting a short kernel", lasting: 1200, graceMs: AMPLE },
  { name: "long", title: "awaiting a long kernel", graceMs: GRACE },
  {
    name: "blocked-short",
    title: "blocked in finishSync, short kernel",
    lasting: 1200,
    graceMs: AMPLE,
  },
  { name: "blocked", title: "blocked in finishSync, long kernel", graceMs: GRACE },
  { name: "reading", title: "inside toHost, long kernel", graceMs: GRACE },
  {
    name: "building",
    title: "building a program",
    lasting: 1000, // programs: each takes a quarter of a second on PoCL, two on NVIDIA's driver
    passing: 2,
    graceMs: AMPLE,
  },
  { name: "worker", title: "awaiting a worker", graceMs: GRACE },
  { name: "busy", title: "busy in JavaScript", graceMs: GRACE },
  { name: "foreign", title: "inside a foreign call", graceMs: GRACE },
  {
    name: "catching",
    title: "awaiting with `interruptible`, saving for longer than the grace window",
    graceMs: GRACE,
  },
  { name: "listening", title: "idle, saving in a listener of `interruptSignal`", graceMs: GRACE },
  { name: "unload", title: "during unload", graceMs: GRACE },
];

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

const interrupted: Expected = { ending: "SIGINT", within: AT_ONCE, said: "" };
const survives: Expected = { ending: "exit 0", within: [0, 15_000], said: "done" };

/** The contract. A second SIGINT ends everything at once, and SIGHUP under nohup nothing. */
export const contract: Record<string, Record<"once" | "term", Expected>> = {
  idle: {
    once: { ending: "SIGINT", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AT_ONCE, said: "" },
  },
  short: {
    once: { ending: "exit 130", within: AFTER_KERNEL, said: "saved" },
    term: { ending: "SIGTERM", within: AFTER_KERNEL, said: "" },
  },
  long: {
    once: { ending: "exit 130", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AFTER_GRACE, said: "" },
  },
  "blocked-short": {
    once: { ending: "exit 130", within: AFTER_KERNEL, said: "saved" },
    term: { ending: "SIGTERM", within: AFTER_KERNEL, said: "" },
  },
  blocked: {
    once: { ending: "exit 130", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AFTER_GRACE, said: "" },
  },
  reading: {
    once: { ending: "exit 130", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AFTER_GRACE, said: "" },
  },
  building: {
    once: { ending: "SIGINT", within: AFTER_WORK, said: "" },
    term: { ending: "SIGTERM", within: AFTER_WORK, said: "" },
  },
  worker: {
    once: { ending: "SIGINT", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AT_ONCE, said: "" },
  },
  busy: {
    once: { ending: "SIGINT", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AFTER_GRACE, said: "" },
  },
  foreign: {
    once: { ending: "SIGINT", within: AFTER_GRACE, said: "" },
    term: { ending: "SIGTERM", within: AFTER_GRACE, said: "" },
  },
  catching: {
    once: { ending: "exit 130", within: AFTER_SAVING, said: "saved" },
    term: { ending: "SIGTERM", within: AT_ONCE, said: "" },
  },
  listening: {
    once: { ending: "exit 130", within: AFTER_SAVING, said: "saved" },
    term: { ending: "SIGTERM", within: AT_ONCE, said: "" },
  },
  unload: { once: interrupted, term: { ending: "SIGTERM", within: AT_ONCE, said: "" } },
};

/** The due end of a cell. */
export function expectedOf(state: State, column: ColumnName): Expected {
  if (column === "twice") return interrupted;
  return column === "hup" ? survives : contract[state.name]![column];
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

/** Faults of an ending; empty when it is as it should be. */
export function faults(
  ending: Ending,
  { ending: how, within: [least, most], said }: Expected,
): string[] {
  const wrong: string[] = [];
  if (describe(ending) !== how) wrong.push(`ended with ${describe(ending)}, not ${how}`);
  if (ending.ms < least || ending.ms > most) {
    wrong.push(`took ${Math.round(ending.ms)} ms, not ${least} to ${most}`);
  }
  const text = ending.out.replace("ready\n", "").trim();
  if (text !== said) wrong.push(`said "${text}", not "${said}"`);
  if (ending.err !== "") wrong.push(`wrote to stderr: ${ending.err}`);
  return wrong;
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
