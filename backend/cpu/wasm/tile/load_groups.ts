/** Loads of a block of statements that cost less together than one by one. */
import type { E } from "../../../tile/language/expression.ts";
import type { Statement } from "../../../tile/language/statements.ts";

/**
 * Four vectors of four bytes that lie side by side, two of eight that become numbers of 16 bits, or numbers of 16 bits
 * from anywhere.
 */
export interface LoadGroup {
  readonly kind: "bytes" | "shorts" | "halves";
  readonly loads: readonly E[];
}

/** Members of a group. */
const MEMBERS = 4;
/** Lanes of a vector of numbers of 16 bits. */
const SHORTS = 8;

/** The groups of the loads that a block's own statements read, by each of their loads. */
export function loadGroups(body: readonly Statement[]): Map<E, LoadGroup> {
  const loads = loadsOf(body);
  const groups = [...byteGroups(loads), ...shortGroups(loads), ...halfGroups(loads)];
  return new Map(groups.flatMap((group) => group.loads.map((load) => [load, group] as const)));
}

/** The loads of statements, in the order in which they are computed. */
function loadsOf(body: readonly Statement[]): E[] {
  const seen = new Set<E>(), found: E[] = [];
  const visit = (e: E): void => {
    if (seen.has(e)) return;
    seen.add(e);
    e.args.forEach(visit);
    // Arrays of a thread change between loads.
    const { space } = e.place ?? {};
    if (e.op === "load" && space !== "local" && space !== "private") found.push(e);
  };
  for (const s of body) {
    if (s.s === "let" || s.s === "set") visit(s.value);
  }
  return found;
}

/** An index without a constant, and that. */
export function partsOf(index: E): readonly [base: E, offset: number] {
  const isMoved = index.op === "+" && index.args[1]!.value > 0;
  return isMoved ? [index.args[0]!, index.args[1]!.value] : [index, 0];
}

function* byteGroups(loads: readonly E[]): Generator<LoadGroup> {
  const isBytes = ({ place, width }: E) =>
    width === MEMBERS && (place!.element === "uint8" || place!.element === "int8");
  const families = Map.groupBy(
    loads.filter(isBytes),
    (load) => partsOf(load.args[0]!)[0],
  );
  for (const family of families.values()) {
    // One buffer of one type; others of the same index are read one by one.
    const { buffer, element } = family[0]!.place!;
    const own = family.filter(({ place }) =>
      place!.buffer === buffer && place!.element === element
    );
    const at = new Map(own.map((load) => [partsOf(load.args[0]!)[1], load]));
    for (const first of at.keys()) {
      const places = Array.from({ length: MEMBERS }, (_, k) => first + k * MEMBERS);
      if (first % (MEMBERS * MEMBERS) !== 0 || !places.every((place) => at.has(place))) continue;
      yield { kind: "bytes", loads: places.map((place) => at.get(place)!) };
    }
  }
}

/** Pairs of vectors of eight bytes. */
function* shortGroups(loads: readonly E[]): Generator<LoadGroup> {
  const bytes = loads.filter(({ kind, place }) => kind === "int16" && place!.element !== "int16");
  const keyOf = ({ place, args: [base, at] }: E): string => {
    const [index] = partsOf(at!);
    return [place!.buffer, place!.element, base!.id, index.id].join();
  };
  for (const family of Map.groupBy(bytes, keyOf).values()) {
    const at = new Map(family.map((load) => [partsOf(load.args[1]!)[1], load]));
    for (const [first, load] of at) {
      const next = at.get(first + SHORTS);
      if (first % (2 * SHORTS) === 0 && next) yield { kind: "shorts", loads: [load, next] };
    }
  }
}

function* halfGroups(loads: readonly E[]): Generator<LoadGroup> {
  const halves = loads.filter(({ place, width }) => width === 1 && place!.element === "float16");
  for (let k = 0; k + MEMBERS <= halves.length; k += MEMBERS) {
    yield { kind: "halves", loads: halves.slice(k, k + MEMBERS) };
  }
}
