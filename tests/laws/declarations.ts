/** Every public declaration, as `deno doc --json` says it. */
import { entryPoints, root } from "../module_graph.ts";
import { runDeno } from "../run_deno.ts";

export interface Type {
  kind: string;
  // deno-lint-ignore no-explicit-any -- a shape for each kind of type
  value?: any;
}

export interface Parameter {
  /** "assign" where there is a default value, then the parameter itself is `left`. */
  kind: string;
  name?: string;
  optional?: boolean;
  tsType?: Type;
  left?: Parameter;
  arg?: Parameter;
  /** The default value's text; "[UNSUPPORTED]" for what is no literal. */
  right?: string;
}

export interface Docs {
  doc?: string;
  tags?: { kind: string; name?: string; doc?: string; type?: string; tsType?: string }[];
}

interface Method {
  name: string;
  isStatic?: boolean;
  accessibility?: string;
  jsDoc?: Docs;
  functionDef?: { params: Parameter[] };
  params?: Parameter[];
}

export interface Declaration {
  kind: string;
  location: { filename: string; byteIndex: number };
  jsDoc?: Docs;
  // deno-lint-ignore no-explicit-any -- a shape for each kind of declaration
  def: any;
}

/** A declaration by the name that a user reaches it by: "nn.Linear". */
export interface Public {
  readonly name: string;
  readonly declaration: Declaration;
}

/** Something that can be called: "Tensor.zeros", "Tensor::add", "new nn.Linear", "einsum". */
export interface Callable {
  readonly name: string;
  readonly parameters: readonly Parameter[];
  readonly docs: Docs;
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

let declarations: Promise<Public[]> | undefined;

/** Every public declaration, each once. */
export function publicDeclarations(): Promise<Public[]> {
  return declarations ??= read();
}

async function read(): Promise<Public[]> {
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
  const seen = new Set<string>();
  return described.flatMap(([prefix, entries]) =>
    entries.flatMap(({ name, declarations }) =>
      declarations.map((declaration) => ({ name: prefix + name, declaration }))
    )
  ).filter(({ declaration: { location } }) => {
    const key = `${location.filename}:${location.byteIndex}`;
    return !seen.has(key) && seen.add(key);
  });
}

/** The type of a parameter, with a default value or without. */
export function typeOf({ tsType, left, arg }: Parameter): Type | undefined {
  return tsType ?? left?.tsType ?? arg?.tsType;
}

/** The parts of a declaration that a user can call; what is for subclasses alone is left out. */
export function callables({ name, declaration: { kind, def, jsDoc = {} } }: Public): Callable[] {
  if (kind === "function") return [{ name, parameters: def.params, docs: jsDoc }];
  if (kind !== "class" && kind !== "interface" && kind !== "variable") return [];
  const constructors: Method[] = kind === "class" ? def.constructors ?? [] : [];
  const methods: Method[] = (kind === "variable" ? def.tsType?.value?.methods : def.methods) ?? [];
  const isPublic = ({ accessibility }: Method) =>
    accessibility !== "private" && accessibility !== "protected";
  return [
    ...constructors.filter(isPublic).map(({ params = [], jsDoc = {} }) => ({
      name: `new ${name}`,
      parameters: params,
      docs: jsDoc,
    })),
    ...methods.filter(isPublic).map((method) => ({
      name: `${name}${method.isStatic ? "." : "::"}${method.name}`,
      parameters: method.functionDef?.params ?? method.params ?? [],
      docs: method.jsDoc ?? {},
    })),
  ];
}
