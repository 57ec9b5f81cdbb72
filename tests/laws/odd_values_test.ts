// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** Whatever a caller without types passes is taken, or refused in netcl's own words: "Cannot ...". */
import { assertAlmostEquals, assertEquals } from "@std/assert";
import {
  amp,
  compile,
  distributions,
  fft,
  grad,
  linalg,
  nn,
  optim,
  setFloat32Precision,
  special,
  Tensor,
  withDevice,
} from "../../mod.ts";

// deno-lint-ignore no-explicit-any -- what a caller without types may pass
type Untyped = any;

const oddValues: readonly (readonly [name: string, value: unknown])[] = [
  ["undefined", undefined],
  ["null", null],
  ["NaN", NaN],
  ["1e20", 1e20],
  ['"a"', "a"],
  ["{}", {}],
  ["[,]", new Array(1)],
  ["a bigint", 3n],
  ["a symbol", Symbol("s")],
  ["an object without a prototype", Object.create(null)],
];

/** Words of JavaScript's own, which say neither what cannot be done nor what to pass. */
const foreign =
  /^Cannot (read properties|convert|destructure|set properties|mix BigInt|access ')|is not a function|is not iterable/;

function isPlain(error: unknown): boolean {
  return error instanceof Error && /Cannot /.test(error.message) && !foreign.test(error.message);
}

/** Calls with each odd value in each place, other places filled; the calls that fail in foreign words. */
function foreignCalls(
  name: string,
  call: (...args: Untyped[]) => unknown,
  fill: readonly unknown[],
): string[] {
  return fill.flatMap((_, k) =>
    oddValues.flatMap(([what, value]) => {
      try {
        const made = call(...fill.with(k, value));
        if (made instanceof Promise) made.catch(() => {});
        return [];
      } catch (error) {
        return isPlain(error) ? [] : [`${name}, argument ${k} ${what}: ${error}`];
      }
    })
  );
}

function onCPU<T>(fn: () => T): T {
  return withDevice("cpu", fn);
}

const x = onCPU(() => Tensor.arange(6, { dtype: "float32" }).reshape([2, 3]).realize());
const at = onCPU(() => Tensor.zeros([2, 3], { dtype: "int32" }).realize());
/** Arguments with which calls come further than to the first one. */
const filled: Record<string, readonly unknown[]> = {
  scatter: [1, at, x],
  scatterAdd: [1, at, x],
  scatterReduce: [1, at, x, { reduce: "sum" }],
  lerp: [x, x],
  split: [1, 0],
  crossEntropy: [at.slice(null, 0)],
};

Deno.test("methods of Tensor take odd values, or refuse them in words of their own", () => {
  const skipped = new Set(["constructor", "print", "dispose"]);
  const found = onCPU(() =>
    Object.entries(Object.getOwnPropertyDescriptors(Tensor.prototype)).flatMap(
      ([name, { value }]) => {
        if (typeof value !== "function" || skipped.has(name)) return [];
        const known = Object.hasOwn(filled, name) ? filled[name] : undefined;
        const fill = known ?? new Array(Math.max(1, value.length)).fill(0);
        return foreignCalls(name, (...args) => value.apply(x.clone(), args), fill);
      },
    )
  );
  assertEquals(found, []);
});

Deno.test("functions take odd values, or refuse them in words of their own", () => {
  const root = { grad, compile, setFloat32Precision };
  const rooms = { Tensor, linalg, fft, special, distributions, root, amp };
  const matrix = onCPU(() => Tensor.eye(3).realize());
  const found = onCPU(() =>
    Object.entries(rooms).flatMap(([room, all]) =>
      Object.getOwnPropertyNames(all).flatMap((name) => {
        const value = (all as Untyped)[name];
        if (typeof value !== "function" || name === "LocationScale") return [];
        const isClass = /^class/.test(Function.prototype.toString.call(value));
        const call = (...args: unknown[]): unknown =>
          isClass ? new value(...args) : value.apply(all, args);
        const fill = [matrix, matrix, 1, 1].slice(0, Math.max(1, Math.min(4, value.length + 1)));
        return foreignCalls(`${room}.${name}`, call, fill);
      })
    )
  );
  assertEquals(found, []);
});

Deno.test("layers and optimizers take odd values, or refuse them in words of their own", () => {
  const w = onCPU(() => nn.parameter(Tensor.ones([2])));
  const found = onCPU(() => [
    ...Object.entries<Untyped>(nn).flatMap(([name, Layer]) => {
      if (typeof Layer !== "function" || !(Layer.prototype instanceof nn.Module)) return [];
      const fill = [2, 2, 2].slice(0, Layer.length);
      const made = foreignCalls(name, (...args) => new Layer(...args), fill);
      const layer = layerOf(Layer);
      if (layer === null) return made;
      return [...made, ...foreignCalls(`${name}.forward`, (x) => layer.forward(x), [0])];
    }),
    ...Object.entries<Untyped>(optim).flatMap(([name, Made]) => {
      if (typeof Made !== "function" || !(Made.prototype instanceof optim.Optimizer)) return [];
      return foreignCalls(name, (...args) => new Made(...args), [[w], { lr: 0.1 }]);
    }),
  ]);
  assertEquals(found, []);
});

/** A layer of some size. */
function layerOf(Layer: Untyped): Untyped {
  for (const args of [[2, 2], [2, 2, 2], [], [2], [[2]]]) {
    try {
      return new Layer(...args);
    } catch {
      // Of another kind.
    }
  }
  return null;
}

Deno.test("zeta of any exponent is a few dozen terms", async () => {
  assertEquals(await onCPU(() => special.zeta(1e20, Tensor.fromHost([1, 2.5]))).toArray(), [1, 0]);
  // SciPy's, over the first term, from below to above the bound of terms.
  const wanted = {
    30: [1.309808588927785, 3.973234640078384, 14.299352837396263],
    100: [1.0076779195576753, 1.5920390165049425, 4.561215055005186],
  };
  for (const [s, ratios] of Object.entries(wanted)) {
    const got = await onCPU(() => {
      const places = Tensor.fromHost([20, 100, 400], { dtype: "float64" });
      return special.zeta(Number(s), places).div(places.pow(-s));
    }).toNumbers();
    got.forEach((ratio, k) => assertAlmostEquals(ratio / ratios[k]!, 1, 1e-8));
  }
});
