/** Barriers stand where hazards are, and nowhere else. */
import { assertEquals } from "@std/assert";
import {
  int,
  type Place,
  variable,
  withExpressions,
} from "../../../../backend/tile/language/expression.ts";
import type { Statement } from "../../../../backend/tile/language/statements.ts";
import { float, load, register } from "../../../../backend/tile/language/values.ts";
import { placeBarriers } from "../../../../backend/tile/passes/barriers.ts";

const place = (buffer: string) => ({ space: "local", buffer, element: "float32" }) as const;
const write = (buffer: string): Statement => ({
  s: "store",
  place: place(buffer),
  index: variable("item", [0, 31]),
  value: float(1),
});
const read = (buffer: string): Statement => ({
  s: "set",
  to: register("r", 0),
  value: load(place(buffer), int(0)),
});

const loop = (body: Statement[]): Statement => ({
  s: "for",
  at: variable("k", [0, 3]),
  count: int(4),
  body,
});

/** The statements as words: `|` is a barrier, brackets are loops. */
function shown(body: readonly Statement[]): string {
  const words: Partial<Record<Statement["s"], string>> = {
    barrier: "|",
    store: "w",
    copy: "c",
    wait: ".",
  };
  return body.map((s) => s.s === "for" ? `[${shown(s.body)}]` : words[s.s] ?? "r").join("");
}

const placed = (make: () => Statement[]): string =>
  withExpressions(() => shown(placeBarriers(make())));

Deno.test("placeBarriers parts writes from reads of others, in both directions, and writes of two statements", () => {
  assertEquals(placed(() => [write("a"), read("a")]), "w|r");
  assertEquals(placed(() => [write("a"), read("a"), write("a")]), "w|r|w");
  assertEquals(placed(() => [write("a"), read("b"), write("b")]), "wr|w");
  assertEquals(placed(() => [write("a"), write("b"), read("a"), read("b")]), "ww|rr");
});

Deno.test("neighbouring stores to one buffer are a work-item's own elements", () =>
  assertEquals(placed(() => [write("a"), write("a"), read("a")]), "ww|r"));

Deno.test("what the last turn of a loop has done meets the next one", () => {
  assertEquals(placed(() => [loop([write("a"), read("a")])]), "[|w|r]");
  assertEquals(placed(() => [loop([read("a")])]), "[r]");
});

Deno.test("a loop that reads what was written before it has one barrier in front, and none in its turns", () => {
  assertEquals(placed(() => [write("a"), loop([read("a")])]), "w|[r]");
  assertEquals(placed(() => [loop([write("a"), loop([read("a")])])]), "[|w|[r]]");
  assertEquals(placed(() => [write("a"), loop([read("b")]), read("a")]), "w[r]|r");
});

Deno.test("a copy begins behind those who read before, and is read behind the barrier after its wait", () => {
  const ring: Place = { space: "ring", buffer: "sm", element: "uint8" };
  const from: Place = { space: "global", buffer: "a", element: "float16" };
  const copy = (): Statement => {
    const [index, at, count] = [int(0), int(0), int(16)];
    return { s: "copy", place: ring, index, from, at, bytes: 16, count };
  };
  const matrices = (): Statement => ({
    s: "matrices",
    to: [],
    place: ring,
    index: int(0),
    how: "rows",
  });
  const wait = (): Statement => ({ s: "wait", left: 0, place: ring });
  assertEquals(placed(() => [copy(), wait(), matrices()]), "c.|r");
  assertEquals(placed(() => [loop([wait(), copy(), matrices()])]), "[.|cr]");
});
