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

/** Names of JavaScript and fields of results in expressions. */
const others = "map flatten includes stateDict weight real imag values logabsdet deviceType".split(
  " ",
);

/** Parts of an expression that the package does not have. */
export function unknownParts(expression: string): string[] {
  const text = expression.replace(/"[^"]*"/g, '""');
  // Each chain of names, and what it is called on where that is no name.
  return [...text.matchAll(/(?<![\w.])(\w+)?((?:\.\w+)*)(\(?)/g)].flatMap(
    ([whole, base, path, call]) => {
      const names = path!.split(".").slice(1);
      if (base === "Math") return [];
      if (base === "Tensor" || base !== undefined && base in spaces) {
        return isPath(base, names) ? [] : [whole];
      }
      const isUnknownCall = base !== undefined && names.length === 0 && call === "(" &&
        !(base in netcl);
      return [...isUnknownCall ? [base] : [], ...names.filter((name) => !isMember(name))];
    },
  );
}

function isPath(base: string, path: readonly string[]): boolean {
  let value: unknown = base === "Tensor" ? Tensor : spaces[base];
  for (const name of path) {
    if (typeof value !== "object" && typeof value !== "function" || value === null) return true;
    if (!(name in value)) return false;
    const holder = value as Space;
    value = name === "prototype"
      ? holder[name]
      : Object.getOwnPropertyDescriptor(holder, name)?.value;
  }
  return true;
}

/** A method or property of what expressions compute with. */
function isMember(name: string): boolean {
  const complex = Object.getOwnPropertyNames(netcl.fft.ComplexTensor.prototype);
  return [...members("tensor"), ...complex, ...others].includes(name);
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
