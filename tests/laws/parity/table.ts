/**
 * The table of PyTorch's names: `deno run -A tests/laws/parity/table.ts` writes the page of the guide that
 * parity_test.ts holds.
 */
import * as netcl from "../../../mod.ts";
import file from "./names.json" with { type: "json" };
import { absent, renamed } from "./pytorch.ts";

/** A name of PyTorch and what is known of it. */
export interface Row {
  readonly space: string;
  readonly name: string;
  /** Here under this name, or as this expression. */
  readonly here?: string;
  /** The reason why it is not here. */
  readonly why?: string;
  /** The row of the tables that says so; null where the name is the same. */
  readonly by: string | null;
}

const { Tensor } = netcl;
type Space = Readonly<Record<string, unknown>>;

/** The namespaces of the package, by the name that an expression has for them. */
const spaces = Object.fromEntries(
  Object.entries(netcl).filter(([name, value]) => /^[a-z]/.test(name) && typeof value === "object"),
) as Record<string, Space>;

/** Places in which a namespace of PyTorch is looked up, in this order. */
const lookups: Readonly<Record<string, readonly string[]>> = {
  torch: ["tensor", "Tensor", "netcl", "linalg", "fft", "special", "nn"],
  Tensor: ["tensor", "linalg", "fft", "special", "nn"],
  "nn.functional": ["nn", "tensor"],
  "nn.init": ["nn.init"],
  "optim.lr_scheduler": ["optim"],
  special: ["special", "tensor"],
};

function members(where: string): readonly string[] {
  if (where === "tensor") return Object.getOwnPropertyNames(Tensor.prototype);
  if (where === "Tensor") return Object.getOwnPropertyNames(Tensor);
  if (where === "netcl") return Object.keys(netcl);
  if (where === "nn.init") return Object.keys(netcl.nn.init);
  return Object.keys(spaces[where] ?? {});
}

const known = new Map<string, ReadonlyMap<string, string>>();

/** The members of a namespace by their names in small letters. */
function membersOf(where: string): ReadonlyMap<string, string> {
  let found = known.get(where);
  if (!found) {
    found = new Map(members(where).map((name) => [name.toLowerCase(), name]));
    known.set(where, found);
  }
  return found;
}

/** The same name, in camelCase. */
function same(space: string, name: string): string | undefined {
  const plain = name.replaceAll("_", "").toLowerCase();
  for (const where of lookups[space] ?? [space]) {
    const found = membersOf(where).get(plain);
    if (found === undefined) continue;
    return where === "tensor" ? `x.${found}` : where === "netcl" ? found : `${where}.${found}`;
  }
}

/** All names with what is known of them; neither `here` nor `why` where nothing is. */
export function rows(): Row[] {
  return Object.entries(file.names).flatMap(([space, names]) =>
    names.split(" ").map((name): Row => {
      for (const by of [`${space}.${name}`, name]) {
        const instead = renamed[by];
        if (instead !== undefined) return { space, name, here: inFull(instead), by };
      }
      const reason = Object.entries(absent).find(([, names]) => matches(names, name));
      if (reason) return { space, name, why: reason[0], by: reason[0] };
      const here = same(space, name);
      return { space, name, by: null, ...here && { here } };
    })
  );
}

/** The bare name of a method as a call. */
function inFull(expression: string): string {
  return /^[a-z]\w*$/.test(expression) && expression !== "x" ? `x.${expression}` : expression;
}

function matches(names: string, name: string): boolean {
  return names.startsWith("/")
    ? new RegExp(names.slice(1)).test(name)
    : names.split(" ").includes(name);
}

/** True where a name that is said to be absent is there all the same. */
export function isThere({ space, name }: Row): boolean {
  return same(space, name) !== undefined;
}

/** Values that expressions are written with. */
const written: Readonly<Record<string, string>> = {
  "Tensor.rand([4, 4], { requiresGrad: true })": "x",
  "Tensor.rand([4, 4])": "y a b weight bias list abs angle real imag",
  "Tensor.zeros([4], { dtype: 'int32' })": "at labels",
  "Tensor.ones([4, 4], { dtype: 'bool' })": "condition mask",
  "4": "n c h w length to high dx limit columns beta factor value",
  "1": "axis bins start groups from low k",
  "[4, 4]": "shape size data",
  "[0, 1]": "axes",
  "[1, 2, 3]": "edges",
  "[Tensor.rand([4]), Tensor.rand([4])]": "tensors vectors",
  "randomState()": "state",
  "new nn.Linear(4, 4)": "model",
  "fft.fft(Tensor.rand([4, 4]))": "z",
  "[new nn.Linear(4, 4), new nn.Linear(4, 4)]": "models",
  "new optim.SGD(new nn.Linear(4, 4).parameters(), { lr: 1 })": "optimizer",
  "new Float32Array(4)": "typedArray",
  "() => 1": "fn",
  "{ log: () => {} }": "options",
  "'cpu'": "name",
  "'/nowhere/to be found'": "path",
};

/** A program that computes expressions and prints those, with the reason, that the package cannot. */
export function program(expressions: readonly string[]): string {
  const module = new URL("../../../mod.ts", import.meta.url);
  const values = Object.entries(written).flatMap(([value, names]) =>
    names.split(" ").map((name) => `${name} = ${value}`)
  );
  return `
import * as netcl from "${module}";
import { loadTorch } from "${new URL("tensor/models/mod.ts", module)}";
const { ${Object.keys(netcl).join(", ")} } = netcl, ${values.join(", ")};
const tried = { ${expressions.map((one) => `${JSON.stringify(one)}: async () => ${one}`)} };
for (const [text, compute] of Object.entries(tried)) {
  try {
    if (await compute() === undefined && !/^set|^manualSeed|^with|^await save/.test(text)) throw new TypeError("gives nothing");
  } catch (error) {
    // Shapes and types are those of the reader's tensors; the file, or a GPU, is not there.
    if (error instanceof ShapeError || error instanceof DTypeError || error instanceof Deno.errors.NotFound || text === 'x.to("gpu")') continue;
    console.log(text, error.message);
  }
}`;
}

const titles: Readonly<Record<string, string>> = { Tensor: "torch.Tensor" };

/** The page of the guide. */
export function page(): string {
  const all = rows(), here = all.filter((row) => row.here !== undefined);
  const counted = Object.keys(file.names).map((space) => {
    const own = all.filter((row) => row.space === space);
    const same = own.filter((row) => row.here !== undefined && row.by === null).length;
    const other = own.filter((row) => row.here !== undefined && row.by !== null).length;
    const cells = [titleOf(space), own.length, same, other, own.length - same - other];
    return `| ${cells.join(" | ")} |`;
  });
  return `${head(here.length, all.length)}
| namespace | names | here | under another name | not here |
| --- | --- | --- | --- | --- |
${counted.join("\n")}
${Object.keys(file.names).map((space) => section(space, all)).join("\n")}`;
}

function head(here: number, all: number): string {
  return `# PyTorch's names

Of ${all} names of PyTorch ${file.release} ${here} are here: under the same name in camelCase, or as what
stands beside it. \`x\` is a tensor. Names that end in an underscore change a tensor in place, which none
here does: \`x.assign(value)\` gives a tensor another value. \`deno run -A tests/laws/parity/table.ts\` writes
this page, and a test holds it against what the package exports.
`;
}

function titleOf(space: string): string {
  return titles[space] ?? (space === "torch" ? "torch" : `torch.${space}`);
}

function section(space: string, all: readonly Row[]): string {
  const own = all.filter((row) => row.space === space);
  const same = own.filter((row) => row.here !== undefined && row.by === null);
  const other = own.filter((row) => row.here !== undefined && row.by !== null);
  const reasons = Map.groupBy(own.filter((row) => row.here === undefined), (row) => row.why);
  const code = (text: string) => `\`${text}\``;
  const parts = [`\n## ${titleOf(space)}\n`];
  if (same.length > 0) parts.push(`Here: ${same.map(({ here }) => code(here!)).join(", ")}\n`);
  if (other.length > 0) {
    const lines = other.map(({ name, here }) => `| ${code(name)} | ${code(here!)} |`);
    parts.push(`| PyTorch | netcl |\n| --- | --- |\n${lines.join("\n")}\n`);
  }
  const lines = [...reasons].map(([why, list]) =>
    `- ${why}: ${list.map(({ name }) => code(name)).join(", ")}`
  );
  if (lines.length > 0) parts.push(`Not here:\n\n${lines.join("\n")}\n`);
  return parts.join("\n");
}

/** Place of the page. */
export const path = new URL("../../../examples/guide/pytorch_names.md", import.meta.url);

/** A text as \`deno fmt\` writes it. */
export async function formatted(text: string): Promise<string> {
  const format = new Deno.Command(Deno.execPath(), {
    args: ["fmt", "--ext", "md", "--line-width", "100", "-"],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const writer = format.stdin.getWriter();
  await writer.write(new TextEncoder().encode(text));
  await writer.close();
  return new TextDecoder().decode((await format.output()).stdout);
}

if (import.meta.main) {
  const unknown = rows().filter(({ here, why }) => here === undefined && why === undefined);
  for (const { space, name } of unknown) console.log(`neither here nor absent: ${space}.${name}`);
  Deno.writeTextFileSync(path, await formatted(page()));
}
