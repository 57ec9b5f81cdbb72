/** Whole numbers in normal form: what they are, whatever is done with them, and what ranges decide. */
import { assert, assertEquals } from "@std/assert";
import fc from "fast-check";
import {
  add,
  div,
  type E,
  firstLane,
  int,
  isMultiple,
  lanes,
  laneStep,
  min,
  mod,
  mul,
  sub,
  variable,
  withExpressions,
} from "../../../../backend/tile/language/expression.ts";
import { lt } from "../../../../backend/tile/language/values.ts";

const WIDTH = 4, names = ["a", "b", "c"] as const;

const operations: Readonly<Record<string, (...args: number[]) => number>> = {
  product: (...args) => args.reduce((all, v) => all * v, 1),
  "+": (x, y) => x! + y!,
  "/": (x, y) => Math.trunc(x! / y!),
  "%": (x, y) => x! % y!,
  min: Math.min,
};

/** The value of an expression in a lane, by its operations as they are written. */
function valueOf(e: E, at: Readonly<Record<string, number>>, lane: number): number {
  const args = e.args.map((a) => valueOf(a, at, lane));
  if (e.op === "const") return e.value;
  if (e.op === "var") return at[e.name]!;
  if (e.op === "lanes") return lane;
  if (e.op === "sum") return args.reduce((all, v, k) => all + v * e.factors[k]!, 0);
  return operations[e.op]!(...args);
}

/** An expression with the same in plain numbers. */
interface Both {
  readonly make: () => E;
  readonly plain: (at: Readonly<Record<string, number>>, lane: number) => number;
}

const leaf: fc.Arbitrary<Both> = fc.oneof(
  fc.constantFrom(...names).map((name): Both => ({
    make: () => variable(name, [0, 40]),
    plain: (at) => at[name]!,
  })),
  fc.constant<Both>({ make: () => lanes(WIDTH), plain: (_, lane) => lane }),
  fc.nat(70).map((n): Both => ({ make: () => int(n), plain: () => n })),
);

const kinds: readonly ((x: Both, y: Both, n: number) => Both)[] = [
  (x, y) => ({
    make: () => add(x.make(), y.make()),
    plain: (at, k) => x.plain(at, k) + y.plain(at, k),
  }),
  (x, y) => ({
    make: () => mul(x.make(), y.make()),
    plain: (at, k) => x.plain(at, k) * y.plain(at, k),
  }),
  (x, _, n) => ({ make: () => mul(x.make(), n), plain: (at, k) => x.plain(at, k) * n }),
  (x, _, n) => ({ make: () => div(x.make(), n), plain: (at, k) => Math.floor(x.plain(at, k) / n) }),
  (x, _, n) => ({ make: () => mod(x.make(), n), plain: (at, k) => x.plain(at, k) % n }),
  (x, y) => ({
    make: () => min(x.make(), y.make()),
    plain: (at, k) => Math.min(x.plain(at, k), y.plain(at, k)),
  }),
];

const { tree } = fc.letrec<{ tree: Both }>((again) => {
  const branch = fc.tuple(again("tree"), again("tree"), fc.nat(5)).map(([x, y, which]) =>
    kinds[which]!(x, y, [1, 2, 4, 6, 16, 32][which]!)
  );
  return { tree: fc.oneof({ depthSize: "small" }, leaf, branch) };
});

Deno.test("normal forms have the value of what was written, and their ranges hold it", () =>
  fc.assert(
    fc.property(tree, fc.array(fc.nat(40), { minLength: 3, maxLength: 3 }), (both, values) => {
      const at = Object.fromEntries(names.map((name, k) => [name, values[k]!]));
      withExpressions(() => {
        const e = both.make();
        for (let lane = 0; lane < WIDTH; lane++) {
          const expected = both.plain(at, lane), [low, high] = e.range;
          if (expected > 2 ** 50) return;
          assertEquals(valueOf(e, at, lane), expected);
          assert(low <= expected && expected <= high, `${expected} of [${low}, ${high}]`);
        }
      });
    }),
  ));

Deno.test("sizes enter as atoms: multiples and differences are known whatever they are", () =>
  withExpressions(() => {
    const size = mul(variable("size", [0, 2 ** 20]), 32), row = variable("row", [0, 2 ** 20]);
    const first = mul(row, size);
    assert(isMultiple(first, 32) && !isMultiple(add(first, 8), 32));
    assertEquals(sub(add(mul(add(row, 1), size), 3), first), add(size, 3));
    assert(div(add(first, 31), 32) === mul(row, variable("size", [0, 2 ** 20])));
    assert(mod(add(first, 31), 32) === int(31));
  }));

Deno.test("div rounds down what is negative, where kernels round towards 0", () =>
  withExpressions(() => {
    // Rows of the last share of 132 that the share before has not computed.
    const share = variable("share", [0, 1000]), size = variable("size", [132, 2 ** 20]);
    const first = mul(share, 132), fresh = sub(first, min(first, sub(size, 132)));
    const at = { share: 1, size: 256 };
    assertEquals([div(fresh, 6), mod(fresh, 6)].map((e) => valueOf(e, at, 0)), [1, 2]);
    // A tap of a dilated window, which may begin before the image: masks compare its quotient with 0.
    const tap = sub(add(mul(variable("x", [0, 11]), 3), variable("t", [0, 2])), 4);
    for (const [x, t] of [[0, 0], [0, 2], [1, 0], [1, 2], [11, 1]] as const) {
      const number = 3 * x + t - 4,
        found = [div(tap, 2), mod(tap, 2)].map((e) => valueOf(e, { x, t }, 0));
      const floor = Math.floor(number / 2);
      assertEquals(found, [floor, number - 2 * floor], `${number}`);
    }
  }));

Deno.test("neighbours have one quotient, and their lanes stay neighbours behind it", () =>
  withExpressions(() => {
    const block = variable("block", [0, 100]), index = add(mul(block, 64), 16, lanes(16));
    const quotient = div(index, 256), rest = mod(index, 256);
    assertEquals([quotient.width, laneStep(rest)], [1, 1]);
    assert(firstLane(rest) === add(mul(mod(block, 4), 64), 16));
    assert(div(add(mul(block, 4), 3), 4) === block, "what is below a step is no remainder of it");
  }));

Deno.test("a condition that ranges decide is none", () =>
  withExpressions(() => {
    const k = variable("k", [0, 31]);
    assertEquals([lt(k, 32), lt(k, 0)].map(({ op, value }) => `${op} ${value}`), [
      "const 1",
      "const 0",
    ]);
    assertEquals(lt(k, 31).op, "<");
    assert(min(k, 40) === k);
  }));
