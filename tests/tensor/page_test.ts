// Suite: quick kernels; above the kernels: other tests hold that optimized ones are right.
/** The class that users read: each member is on it, with words, in the list by categories. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { Tensor } from "../../mod.ts";
import { root } from "../module_graph.ts";
import { runDeno } from "../run_deno.ts";

interface Documented {
  readonly name: string;
  readonly isStatic?: boolean;
  readonly jsDoc?: { readonly doc?: string };
}

interface ClassDocument {
  readonly jsDoc: { readonly doc: string };
  readonly def: {
    readonly constructors: readonly { readonly accessibility?: string }[];
    readonly properties?: readonly Documented[];
    readonly methods: readonly Documented[];
    readonly extends?: string;
  };
}

async function documentOf(path: string, name: string): Promise<ClassDocument> {
  const { out } = await runDeno(["doc", "--json", path], { cwd: root });
  const { nodes } = JSON.parse(out);
  const symbols = Object.values(nodes).flatMap((file) =>
    (file as { symbols: { name: string; declarations: ClassDocument[] }[] }).symbols
  );
  return symbols.find((symbol) => symbol.name === name)!.declarations[0]!;
}

const page = await documentOf("tensor/class/tensor.ts", "Tensor");
const members = [...page.def.methods, ...page.def.properties ?? []];

function keyOf({ name, isStatic }: Documented): string {
  return isStatic ? `Tensor.${name}` : name;
}

/** Members of an object at run time, by the names that `deno doc` gives. */
function namesOf(holder: object, prefix = ""): string[] {
  const symbols = new Map<symbol, string>([
    [Symbol.dispose, "[Symbol.dispose]"],
    [Symbol.toPrimitive, "[Symbol.toPrimitive]"],
    [Symbol.for("nodejs.util.inspect.custom"), '[Symbol.for("nodejs.util.inspect.custom")]'],
  ]);
  const own = Reflect.ownKeys(holder).map((key) =>
    typeof key === "symbol" ? symbols.get(key) ?? String(key) : prefix + key
  );
  const ofEveryClass = ["constructor", "Tensor.length", "Tensor.name", "Tensor.prototype"];
  return own.filter((name) => !ofEveryClass.includes(name));
}

Deno.test("Tensor is one class: what it has at run time is what deno doc lists, no more", () => {
  assertEquals(page.def.extends, undefined);
  assertEquals(Object.getPrototypeOf(Tensor.prototype), Object.prototype);
  const atRunTime = [...namesOf(Tensor.prototype), ...namesOf(Tensor, "Tensor.")];
  assertEquals(new Set(members.map(keyOf)), new Set(atRunTime));
  assert(members.length > 200, `${members.length} members`);
});

Deno.test("a tensor has no property of its own: what netcl keeps for it is not to be seen", () => {
  const x = Tensor.ones([2], { device: "cpu", requiresGrad: true });
  assertEquals(Reflect.ownKeys(x), []);
  assertEquals(Reflect.ownKeys(x.mul(2)), []);
  assertEquals(page.def.constructors.map(({ accessibility }) => accessibility), ["protected"]);
});

Deno.test("every member of Tensor is documented", () => {
  const bare = members.filter(({ jsDoc }) => !jsDoc?.doc?.trim());
  // A setter is documented with its getter.
  const documented = new Set(members.filter((m) => !bare.includes(m)).map(keyOf));
  assertEquals(bare.map(keyOf).filter((name) => !documented.has(name)), []);
});

Deno.test("the page lists every member once, by category, in the order of the file", () => {
  const list = page.jsDoc.doc.split("\n- ").slice(1).map((item) => item.split("\n\n")[0]!);
  const listed = list.flatMap((item) => {
    assertMatch(item, /^\*\*[A-Z][a-z ]+\*\*/);
    const names = item.split(/:\s+(?=`)/).at(-1)!;
    return [...names.matchAll(/`([\w.]+)`/g)].map(([, name]) => name!);
  });
  const named = members.map(keyOf).filter((name) => !name.startsWith("["));
  assertEquals([...listed].sort(), [...new Set(named)].sort());
  const inFile = [...new Set(page.def.methods.map(keyOf))].filter((name) => listed.includes(name));
  const methods = new Set(inFile);
  assertEquals(listed.filter((name) => methods.has(name)), inFile);
});
