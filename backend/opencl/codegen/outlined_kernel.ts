/**
 * A kernel whose body is a function of its own.
 *
 * PoCL (3.1 to 7.1) puts three copies of a kernel's body into its object file: the kernel, and a launcher
 * of work-groups for each of its two ways of passing arguments. All three are optimized and become machine
 * code. Of a kernel that only calls a function, the three copies are a call each, so that the function is
 * compiled once: in a third of the time.
 *
 * Only where a work-group is one item: with more, PoCL makes a loop over the items, and the vectorizer must
 * see what is in it.
 */
import { allArguments, type Argument, type Generated } from "./generated.ts";

/** Queries for the kernel itself alone. */
const asksForSizes = /get_(num_groups|global_size|local_size|global_offset|global_linear_id)\(/;
/** Local memory, which only a kernel may declare: a line with the element type and arrays. */
const localArrays = /^ *local (\w+) (\w+\[\d+\](?:, \w+\[\d+\])*)(?: __attribute__.*)?;$/gm;

/** True where a kernel's body may be a function that is given the number of its work-item. */
export function canOutline({ local, body }: Generated): boolean {
  return local.every((items) => items === 1) && !asksForSizes.test(body);
}

/** A kernel of that name, behind the function that it calls. */
export function outlinedKernel(name: string, { args, body }: Generated): string {
  const given = allArguments(args);
  const arrays: Argument[] = [];
  const declarations: string[] = [];
  const rest = body.replaceAll(localArrays, (line: string, type: string, names: string) => {
    declarations.push(line);
    const found = names.split(", ").map((array) => array.slice(0, array.indexOf("[")));
    arrays.push(...found.map((array) => ({ type: `local ${type}*`, name: array })));
    return "";
  });
  const items = [0, 1, 2].map((d) => ({ type: "const size_t", name: `item_${d}` }));
  // Where a group is one item, its number is the item's.
  const text = rest.replaceAll(/\bget_(?:global|group)_id\((\d)\)/g, "item_$1")
    .replaceAll(/\bget_local_id\(\d\)/g, "0");
  const values = [...given, ...arrays].map((argument) => argument.name);
  const call = [...values, "get_global_id(0)", "get_global_id(1)", "get_global_id(2)"];
  // Not static: clang would put the addresses of local arrays into a function that nobody else can call, and
  // PoCL gives each thread its own arrays only where they are the kernel's.
  return `__attribute__((noinline)) void ${name}_body(${listOf([...given, ...arrays, ...items])}) {
${text}
kernel void ${name}(${listOf(given)}) {
${[...declarations, `  ${name}_body(${call.join(", ")});`].join("\n")}
}`;
}

function listOf(args: readonly Argument[]): string {
  return args.map(({ type, name }) => `${type} ${name}`).join(", ");
}
