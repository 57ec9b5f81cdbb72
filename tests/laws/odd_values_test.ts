// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** Whatever a caller without types passes is taken, or refused in netcl's own words: "Cannot ...". */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { DTypeError, ShapeError, special, Tensor, withDevice } from "../../mod.ts";
import { type Place, places, type Untyped } from "./declared_calls.ts";

const all = await places();

const oddValues: Readonly<Record<string, unknown>> = {
  undefined: undefined,
  null: null,
  NaN: NaN,
  "1e20": 1e20,
  '"a"': "a",
  "{}": {},
  "[,]": new Array(1),
  "a bigint": 3n,
  "a symbol": Symbol("s"),
  "an object without a prototype": Object.create(null),
};

/** Words of JavaScript's own, which say neither what cannot be done nor what to pass. */
const foreign =
  /^Cannot (read properties|(read|write) private|convert (an? |object|undefined)|destructure|set properties|mix BigInt|access ')|is not a function|is not iterable/;

/** The error of a call, or null where it takes the value. */
async function refusal({ call }: Place, value: Untyped): Promise<Error | null> {
  try {
    const made = withDevice("cpu", () => call(value));
    if (made instanceof Promise) await made;
    return null;
  } catch (error) {
    return error as Error;
  }
}

const isPlain = ({ message }: Error) => /Cannot |is no /.test(message) && !foreign.test(message);

Deno.test("functions, layers and optimizers take odd values, or refuse them in words of their own", async () => {
  const found: string[] = [];
  for (const place of all) {
    for (const [what, value] of Object.entries(oddValues)) {
      const error = await refusal(place, value);
      if (error && !isPlain(error)) found.push(`${place.name} ${what}: ${error.message}`);
    }
  }
  assertEquals(found, []);
});

/** Values of other types than the one that a parameter has. */
const wrong: Readonly<Record<string, readonly unknown[]>> = {
  ...{ number: ["text"], boolean: ["text", 7], string: [7], array: [7], fnOrConstructor: [7] },
  ...{ Tensor: ["text", 7], TensorLike: ["text"], Shape: ["text", 7], Sizes: ["text"] },
  ...{ Axes: ["text"], literal: ["text"] },
};

/** Functions that take anything, and a layer that is named by its place. */
const takingAll = [
  ...["nn.ModuleDict::has(name)", "nn.Sequential::forward(x)", "nn.Identity::forward(x)"],
  "new nn.Sequential(layers)",
];

Deno.test("a value of a wrong type is refused and named", async () => {
  const found: string[] = [];
  let count = 0;
  for (const place of all.filter(({ name }) => !takingAll.includes(name))) {
    for (const value of Object.hasOwn(wrong, place.type) ? wrong[place.type]! : []) {
      count++;
      const error = await refusal(place, value);
      // What does not fit the arguments made up here, or options that must be given, may be seen first.
      const isNamed = error instanceof ShapeError || error instanceof DTypeError ||
        error?.message.includes(String(value)) || / without the option|: pass \{/.test(`${error}`);
      if (!isNamed) found.push(`${place.name} ${value}: ${error}`);
    }
  }
  assertEquals(found, []);
  assert(count > 1000);
});
Deno.test("zeta of any exponent is a few dozen terms", async () => {
  assertEquals(
    await withDevice("cpu", () => special.zeta(1e20, Tensor.fromHost([1, 2.5]))).toArray(),
    [1, 0],
  );
  // SciPy's, over the first term, from below to above the bound of terms.
  const wanted = {
    30: [1.309808588927785, 3.973234640078384, 14.299352837396263],
    100: [1.0076779195576753, 1.5920390165049425, 4.561215055005186],
  };
  for (const [s, ratios] of Object.entries(wanted)) {
    const got = await withDevice("cpu", () => {
      const places = Tensor.fromHost([20, 100, 400], { dtype: "float64" });
      return special.zeta(Number(s), places).div(places.pow(-s));
    }).toNumbers();
    got.forEach((ratio, k) => assertAlmostEquals(ratio / ratios[k]!, 1, 1e-8));
  }
});
