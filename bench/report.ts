/** The table of what was measured, with the targets and whether they are met. */
import { type DeviceClass, nameOf, type PeerName, type Target, type Work } from "./works.ts";

/** A target and how it stands; `reached` is null where none of its peers ran. */
export interface Verdict {
  readonly target: Target;
  readonly text: string;
  readonly reached: number | null;
  readonly met: boolean | null;
}

/** The medians of a work: seconds, or a count, by who did it. */
export interface Row {
  readonly work: Work;
  readonly values: Partial<Record<PeerName | "netcl", number>>;
}

function judge(target: Target, { work, values }: Row): Verdict {
  const ours = values.netcl;
  if ("of" in target) {
    const { of, ratio } = target;
    const best = Math.min(...of.map((peer) => values[peer] ?? Infinity));
    const goal = `${ratio} of ${of.join(" or ")}`;
    if (ours === undefined || best === Infinity) {
      return { target, text: `${goal}: not measured`, reached: null, met: null };
    }
    const reached = best / ours;
    if (of.includes("machine") && reached > 1.05) {
      return { target, text: `${goal}: the machine was too busy`, reached: null, met: null };
    }
    return verdict(target, `${reached.toFixed(2)} (${goal}`, reached, reached >= ratio);
  }
  const goal = "atMost" in target ? `at most ${target.atMost}` : `at least ${target.atLeast}`;
  if (ours === undefined) {
    return { target, text: `${goal}: not measured`, reached: null, met: null };
  }
  const reached = work.figure(ours);
  const met = "atMost" in target ? reached <= target.atMost : reached >= target.atLeast;
  return verdict(target, `(${goal}`, reached, met);
}

function verdict(target: Target, text: string, reached: number, met: boolean): Verdict {
  return { target, text: `${text}: ${met ? "met" : "not met"})`, reached, met };
}

/** The state of a row against its targets for a class of devices. */
export function judgeAll(row: Row, device: DeviceClass): Verdict[] {
  return (row.work.targets[device] ?? []).map((target) => judge(target, row));
}

function shown({ work, values }: Row, who: PeerName | "netcl"): string {
  const value = values[who];
  return value === undefined ? "-" : String(Number(work.figure(value).toPrecision(3)));
}

/** The table: a work a line, a column for netcl and for every peer, the targets at the end. */
export function table(rows: readonly Row[], peers: readonly PeerName[], device: DeviceClass) {
  const head = ["work", "unit", "netcl", ...peers, "netcl against them (target)"];
  const body = rows.map((row) => [
    nameOf(row.work),
    row.work.unit,
    ...(["netcl", ...peers] as const).map((who) => shown(row, who)),
    judgeAll(row, device).map(({ text }) => text).join(", "),
  ]);
  const all = [head, ...body];
  const widths = head.map((_, column) => Math.max(...all.map((cells) => cells[column]!.length)));
  const line = (cells: string[]) =>
    cells.map((cell, column) =>
      column < 2 || column === head.length - 1
        ? cell.padEnd(widths[column]!)
        : cell.padStart(widths[column]!)
    ).join("  ").trimEnd();
  return all.map(line).join("\n");
}
