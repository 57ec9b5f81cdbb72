/** Values that several expressions need have a name, where they are there and do not change. */
import { assertEquals } from "@std/assert";
import {
  add,
  type E,
  int,
  mul,
  variable,
  withExpressions,
} from "../../../../backend/tile/language/expression.ts";
import type { Statement } from "../../../../backend/tile/language/statements.ts";
import { fadd, float, fmul, load, lt, register } from "../../../../backend/tile/language/values.ts";
import { shareExpressions } from "../../../../backend/tile/passes/sharing.ts";

const x = { space: "global", buffer: "x", element: "float32" } as const;
const l = { ...x, space: "local", buffer: "l" } as const;
const set = (n: number, value: E): Statement => ({ s: "set", to: register("r", n), value });

/** Outline of the statements: names by what they stand for, blocks in brackets. */
function shown(body: readonly Statement[]): string {
  return body.map((s) =>
    s.s === "let" ? `let ${s.value.op}` : "body" in s ? `${s.s} [${shown(s.body)}]` : s.s
  ).join(", ");
}

const shared = (make: () => Statement[]): string =>
  withExpressions(() => shown(shareExpressions(make())));
const i = () => variable("i", [0, 9]), n = () => variable("n", [0, 9]);

Deno.test("shareExpressions names a load that two statements need, and loads it once", () =>
  assertEquals(
    shared(() => {
      const value = load(x, mul(n(), n()));
      return [set(0, value), set(1, fadd(value, float(1)))];
    }),
    "let load, set, set",
  ));

Deno.test("what a loop does not change is named before it, but for loads", () =>
  assertEquals(
    shared(() => {
      const fixed = mul(n(), n()), value = load(x, add(mul(fixed, 2), i()));
      const body = [set(0, fmul(value, load(x, mul(fixed, 3)))), set(1, value)];
      return [{ s: "for", at: i(), count: int(9), body }];
    }),
    "let product, let sum, for [let load, set, set]",
  ));

Deno.test("a load under a condition stays under it", () =>
  assertEquals(
    shared(() => {
      const value = load(x, n()), condition = lt(n(), 5);
      return [{ s: "if", condition, body: [set(0, value), set(1, fadd(value, value))] }];
    }),
    "if [let load, set, set]",
  ));

Deno.test("registers and local memory change: what reads them has no name", () =>
  assertEquals(
    shared(() => {
      const held = fadd(register("s", 0), float(1)), local = load(l, n());
      return [set(0, held), set(1, held), set(2, local), set(3, local)];
    }),
    "set, set, set, set",
  ));
