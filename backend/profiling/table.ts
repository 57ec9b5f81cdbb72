/** Table of the last trace, added up by name: for people, as PyTorch's `key_averages`. */
import { COPIES, DEVICE, HOST, lastSlices, type Slice, SPANS } from "./trace.ts";

/** The slices of one name on one lane. Times are microseconds. */
export interface ProfilerRow {
  /** Its name. */
  readonly name: string;
  /** Its place: kernels of the device, copies to it, calls of the host, spans of the user. */
  readonly lane: "kernel" | "copy" | "host" | "span";
  /** Count of calls. */
  readonly calls: number;
  /** All calls together. */
  readonly total: number;
  /** The shortest call. */
  readonly least: number;
  /** The longest call. */
  readonly most: number;
  /** Bytes that were read and written, all calls together; 0 where nobody said. */
  readonly bytes: number;
}

const lanes: Readonly<Record<number, ProfilerRow["lane"]>> = {
  [DEVICE]: "kernel",
  [COPIES]: "copy",
  [HOST]: "host",
  [SPANS]: "span",
};

/** The lanes in the order of their rows. */
const order: readonly ProfilerRow["lane"][] = ["kernel", "host", "copy", "span"];

/** The rows of the trace that ended last: kernels first, on each lane what took longest first. */
export function profilerRows(): ProfilerRow[] {
  const groups = Map.groupBy(lastSlices(), ({ name, tid }) => `${tid} ${name}`);
  return [...groups.values()].map(rowOf).toSorted((a, b) =>
    order.indexOf(a.lane) - order.indexOf(b.lane) || b.total - a.total
  );
}

function rowOf(slices: readonly Slice[]): ProfilerRow {
  const times = slices.map(({ dur }) => dur);
  const { name, tid } = slices[0]!;
  return {
    name,
    lane: lanes[tid]!,
    calls: slices.length,
    total: times.reduce((sum, time) => sum + time, 0),
    least: Math.min(...times),
    most: Math.max(...times),
    bytes: slices.reduce((sum, { args }) => sum + Number(args["bytes"] ?? 0), 0),
  };
}

/** Cells of a row in a table. */
export function cellsOf(row: ProfilerRow, share: number): string[] {
  const { name, lane, calls, total, least, most, bytes } = row;
  return [
    name,
    lane,
    String(calls),
    (total / 1000).toFixed(3),
    `${(100 * share).toFixed(1)} %`,
    (total / calls).toFixed(1),
    least.toFixed(1),
    most.toFixed(1),
    bytes > 0 ? (bytes / total / 1000).toFixed(1) : "",
  ];
}

/** The heads of the columns that {@linkcode cellsOf} fills. */
export const columns: readonly string[] = [
  "name",
  "where",
  "calls",
  "total ms",
  "share",
  "mean us",
  "least us",
  "most us",
  "GB/s",
];

/** Each row with its share of the time of its lane. */
export function withShares(rows: readonly ProfilerRow[]): [row: ProfilerRow, share: number][] {
  const totals = new Map<string, number>();
  for (const { lane, total } of rows) totals.set(lane, (totals.get(lane) ?? 0) + total);
  return rows.map((row) => [row, row.total / totals.get(row.lane)!]);
}

/**
 * The table as text.
 *
 * @param limit The most rows of each lane.
 */
export function profilerTable(limit: number): string {
  const seen = new Map<string, number>();
  const rows = withShares(profilerRows()).filter(([{ lane }]) => {
    seen.set(lane, (seen.get(lane) ?? 0) + 1);
    return seen.get(lane)! <= limit;
  });
  const lines = [columns, ...rows.map(([row, share]) => cellsOf(row, share))];
  const widths = columns.map((_, k) => Math.max(...lines.map((cells) => cells[k]!.length)));
  const write = (cells: readonly string[]) =>
    cells.map((cell, k) => k < 2 ? cell.padEnd(widths[k]!) : cell.padStart(widths[k]!))
      .join("  ").trimEnd();
  return lines.map(write).join("\n");
}
