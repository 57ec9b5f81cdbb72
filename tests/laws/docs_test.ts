/** Public documentation says what a stranger needs: each parameter's name, defaults, classes of errors. */
import { assertEquals } from "@std/assert";
import {
  type Callable,
  callables,
  type Parameter,
  type Public,
  publicDeclarations,
  type Type,
  typeOf,
} from "./declarations.ts";
import { isOptions, optionRecords } from "./option_parameters.ts";

const declarations = await publicDeclarations(), records = await optionRecords();
const functions = declarations.flatMap(callables);

const nameOf = ({ name, left, arg }: Parameter): string =>
  name ?? (left ? nameOf(left) : arg ? nameOf(arg) : "");
const tagsOf = ({ docs }: Callable, kind: string) =>
  (docs.tags ?? []).filter((tag) => tag.kind === kind);
const whole = ({ docs: { doc = "", tags = [] } }: Callable) =>
  [doc, ...tags.map((tag) => tag.doc ?? "")].join(" ");
/** Overloads share the comment of the first: the parameters of all of them. */
const parametersOf = Map.groupBy(functions, ({ name }) => name);

Deno.test("a parameter that is documented is one of the function's", () => {
  const wrong = functions.flatMap((one) => {
    const known = parametersOf.get(one.name)!.flatMap(({ parameters }) => parameters.map(nameOf));
    // A parameter that is taken apart has no name: "{ a, b }: Options".
    if (known.includes("")) return [];
    return tagsOf(one, "param").filter(({ name }) => !known.includes(name!))
      .map(({ name }) => `${one.name}: ${name}`);
  });
  assertEquals(wrong, []);
});

Deno.test("an error that is documented names its class, and stands in a line of its own", () => {
  const wrong = functions.filter((one) =>
    /@(throws|param|returns)/.test(one.docs.doc ?? "") ||
    tagsOf(one, "throws").some(({ type, tsType }) => !type && !tsType)
  );
  assertEquals(wrong.map(({ name }) => name), []);
});

/** True for a type of which a value can be written down: a number, a text, a truth value, sizes. */
function isPlain(type: Type | undefined): boolean {
  switch (type?.kind) {
    case "keyword":
    case "literal":
      return true;
    case "union":
      return type.value.every(isPlain);
    case "typeRef":
      return ["Sizes", "Axes", "DType"].includes(type.value.typeName);
  }
  return false;
}

/** Words by which a comment says what holds where nothing is given. */
const says = /default|unless given|without|\belse\b|otherwise|left out|absent|\bnone\b/i;

Deno.test("an option that may be left out says what holds then", () => {
  const options = declarations.filter(({ name, declaration: { kind } }) =>
    kind === "interface" && /(Options|Sampling)$/.test(name)
  );
  const wrong = options.flatMap(({ name, declaration }: Public) =>
    ((declaration.def.properties ?? []) as {
      name: string;
      optional: boolean;
      tsType?: Type;
      jsDoc?: { doc?: string };
    }[])
      .filter((one) => one.optional && isPlain(one.tsType) && !says.test(one.jsDoc?.doc ?? ""))
      .map((one) => `${name}.${one.name}`)
  );
  assertEquals(wrong, []);
  assertEquals(options.length > 50, true);
});

Deno.test("a parameter with a default value says which", () => {
  const wrong = functions.filter((one) =>
    one.parameters.some((parameter) =>
      parameter.kind === "assign" && isPlain(typeOf(parameter)) &&
      !isOptions(typeOf(parameter), records)
    ) && !says.test(whole(one))
  );
  assertEquals(wrong.map(({ name }) => name), []);
});

Deno.test("a function is described by itself, but for further forms of one", () => {
  const alone = functions.filter((one) => parametersOf.get(one.name)![0] === one);
  const found = alone.filter(({ docs }) =>
    /^(The same(,| as| with| without| for| in the)\b|As there\b|Likewise\b)/.test(docs.doc ?? "")
  );
  assertEquals(found.map(({ name }) => name), []);
});
