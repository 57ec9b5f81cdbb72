// Which parameters of the public functions are options, as `deno doc --json` says.
import { entryPoints, root } from "../module_graph.ts";
import { runDeno } from "../run_deno.ts";

interface Type {
  kind: string;
  // deno-lint-ignore no-explicit-any -- a shape for each kind of type
  value?: any;
}

interface Parameter {
  kind: string;
  name?: string;
  tsType?: Type;
  left?: Parameter;
  arg?: Parameter;
}

interface Method {
  name: string;
  isStatic?: boolean;
  accessibility?: string;
  functionDef?: { params: Parameter[] };
  params?: Parameter[];
}

interface Declaration {
  kind: string;
  location: { filename: string; byteIndex: number };
  // deno-lint-ignore no-explicit-any -- a shape for each kind of declaration
  def: any;
}

interface Entry {
  name: string;
  declarations: Declaration[];
}

/** `export * as nn from "./nn/mod.ts"`: `deno doc` lists such modules only by reference. */
async function namespaces(file: string): Promise<[name: string, file: string][]> {
  const url = new URL(file, root);
  const text = await Deno.readTextFile(url);
  return [...text.matchAll(/^export \* as (\w+) from "(.+)";$/gm)].map((
    [, name, path],
  ) => [name!, new URL(path!, url).href.slice(root.href.length)]);
}

async function documented(file: string): Promise<Entry[]> {
  const { success, out, err } = await runDeno(["doc", "--json", file], { cwd: root });
  if (!success) throw new Error(err);
  const { nodes } = JSON.parse(out);
  return Object.values(nodes).flatMap((module) => (module as { symbols: Entry[] }).symbols);
}

/** True for an object of named options: its type is written in place, or a record with optionals. */
function isOptions(type: Type | undefined, records: ReadonlySet<string>): boolean {
  switch (type?.kind) {
    case "typeLiteral":
      return type.value.properties?.length > 0 && !type.value.methods?.length;
    case "typeRef": {
      const { typeName, typeParams = [] } = type.value;
      if (records.has(typeName) || typeName.endsWith("Options")) return true;
      return ["Required", "Partial", "Recorded"].includes(typeName) &&
        typeParams.some((inner: Type) => isOptions(inner, records));
    }
    case "intersection":
    case "union":
      return type.value.some((inner: Type) => isOptions(inner, records));
  }
  return false;
}

function isRecord({ kind, def }: Declaration): boolean {
  const { methods = [], callSignatures = [], properties = [] } = def;
  return kind === "interface" && methods.length === 0 && callSignatures.length === 0 &&
    properties.some((property: { optional: boolean }) => property.optional);
}

/** "Tensor.zeros(1)": the second parameter is an object of options. */
function optionsOf(
  name: string,
  parameters: readonly Parameter[],
  records: ReadonlySet<string>,
): string[] {
  return parameters.flatMap((parameter, k) => {
    const type = parameter.tsType ?? parameter.left?.tsType ?? parameter.arg?.tsType;
    return isOptions(type, records) ? [`${name}(${k})`] : [];
  });
}

function methodsOf({ kind, def }: Declaration): Method[] {
  const methods: Method[] = kind === "variable" ? def.tsType?.value?.methods ?? [] : def.methods;
  return (methods ?? []).filter(({ accessibility }) =>
    accessibility !== "private" && accessibility !== "protected"
  );
}

function parametersOf(
  name: string,
  declaration: Declaration,
  records: ReadonlySet<string>,
): string[] {
  const { kind, def } = declaration;
  if (kind === "function") return optionsOf(name, def.params, records);
  if (kind !== "class" && kind !== "interface" && kind !== "variable") return [];
  const methods = methodsOf(declaration).flatMap((method) =>
    optionsOf(
      `${name}${method.isStatic ? "." : "::"}${method.name}`,
      method.functionDef?.params ?? method.params ?? [],
      records,
    )
  );
  const constructors = (kind === "class" ? def.constructors ?? [] : [])
    .flatMap(({ params }: { params: Parameter[] }) => optionsOf(`new ${name}`, params, records));
  return [...constructors, ...methods];
}

/**
 * Every parameter of a public function, constructor or method that takes an object of options:
 * "new optim.SGD(1)", "Tensor.zeros(1)", "Tensor::backward(1)".
 */
export async function optionParameters(): Promise<string[]> {
  const files = await entryPoints();
  // Entry points that users also reach by a namespace, such as nn, are known by it.
  const named = new Set(
    (await Promise.all(files.map(namespaces))).flat().map(([, inner]) => inner),
  );
  const modules: [prefix: string, file: string][] = files
    .filter((file) => !named.has(file)).map((file) => ["", file]);
  // Grows while it is gone through: a namespace may hold another one.
  for (const [prefix, file] of modules) {
    for (const [name, inner] of await namespaces(file)) modules.push([`${prefix}${name}.`, inner]);
  }
  const described = await Promise.all(
    modules.map(async ([prefix, file]) => [prefix, await documented(file)] as const),
  );
  const declarations = described.flatMap(([prefix, entries]) =>
    entries.flatMap((entry) => entry.declarations.map((d) => ({ name: prefix + entry.name, d })))
  );
  const records = new Set(
    declarations.filter(({ d }) => isRecord(d)).map(({ name }) => name.split(".").at(-1)!),
  );
  const seen = new Set<string>();
  const once = declarations.filter(({ d: { location } }) => {
    const key = `${location.filename}:${location.byteIndex}`;
    return !seen.has(key) && seen.add(key);
  });
  return [...new Set(once.flatMap(({ name, d }) => parametersOf(name, d, records)))].sort();
}
