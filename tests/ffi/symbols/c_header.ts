/** Reads the declarations of the Khronos headers, for comparison with the tables. */

export interface Prototype {
  readonly name: string;
  readonly result: string;
  readonly parameters: readonly { readonly type: string; readonly name: string }[];
  /** The version that brought it, where the header says so and it is not deprecated. */
  readonly since: string | null;
}

const folder = "/usr/include/CL";

/** The text of a header without comments, or null where the headers are not installed. */
export function readHeader(file: string): string | null {
  try {
    return Deno.readTextFileSync(`${folder}/${file}`).replaceAll(/\/\*[\s\S]*?\*\//g, "")
      .replaceAll("\\\n", " ");
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return null;
    throw error;
  }
}

/** Exported functions of cl.h, and function types of cl_ext.h. */
export function prototypes(header: string): Prototype[] {
  const exported =
    /extern\s+CL_API_ENTRY\s+([\w*\s]+?)\s*CL_API_CALL\s+(\w+)\s*\(([^;]*)\)\s*(CL_API_SUFFIX\w+)?\s*;/g;
  const typed = /typedef\s+([\w*\s]+?)\s*\(\s*CL_API_CALL\s*\*\s*(\w+)_fn\)\s*\(([^;]*)\)()\s*;/g;
  const found = [...header.matchAll(exported), ...header.matchAll(typed)];
  return found.map(([, result, name, parameters, suffix]) => ({
    name: name!,
    result: type(result!.replace(/CL_API_PREFIX\w*/, "")),
    parameters: split(parameters!).map(parameter),
    since: /VERSION_(\d)_(\d)$/.exec(suffix ?? "")?.slice(1).join(".") ?? null,
  }));
}

/** `#define CL_X value` with a plain number. */
export function defines(header: string): Map<string, bigint> {
  const numbers = new Map<string, bigint>();
  for (const [, name, text] of header.matchAll(/^#define\s+(CL_\w+)[ \t]+(\S.*)$/gm)) {
    const value = evaluate(text!.trim(), numbers);
    if (value !== null) numbers.set(name!, value);
  }
  return numbers;
}

function evaluate(text: string, known: ReadonlyMap<string, bigint>): bigint | null {
  const bare = text.replace(/^\((.*)\)$/, "$1").trim();
  const shift = /^\(?1\s*<<\s*(\w+)\)?(\s*-\s*1)?$/.exec(bare);
  if (shift) {
    const bits = known.get(shift[1]!) ?? BigInt(shift[1]!);
    return (1n << bits) - (shift[2] ? 1n : 0n);
  }
  if (/^-?(0x[\da-f]+|\d+)$/i.test(bare)) {
    return bare[0] === "-" ? -BigInt(bare.slice(1)) : BigInt(bare);
  }
  return known.get(bare) ?? null;
}

/** Bytes of every scalar type that the headers define. */
export function typeSizes(
  header: string,
  platform: Iterable<[string, number]>,
): Map<string, number> {
  const sizes = new Map(platform);
  for (const [, base, name] of header.matchAll(/typedef\s+(cl_\w+)\s+(cl_\w+)\s*;/g)) {
    sizes.set(name!, sizes.get(base!)!);
  }
  for (const [, name] of header.matchAll(/typedef\s+struct\s+\w+\s*\*\s*(cl_\w+)\s*;/g)) {
    sizes.set(name!, 8);
  }
  return sizes;
}

/** Splits at the commas that are not inside of a callback's own parameters. */
function split(text: string): string[] {
  const parts: string[] = [];
  let depth = 0, part = "";
  for (const char of text) {
    depth += char === "(" ? 1 : char === ")" ? -1 : 0;
    if (char === "," && depth === 0) parts.push(part), part = "";
    else part += char;
  }
  return [...parts, part].map((one) => one.trim()).filter((one) => one !== "" && one !== "void");
}

function parameter(text: string): { type: string; name: string } {
  const callback = /\(\s*CL_CALLBACK\s*\*\s*(\w+)\s*\)/.exec(text);
  if (callback) return { type: "*", name: callback[1]! };
  const named = /^(.*[\s*])(\w+)\s*(\[\])?$/s.exec(text);
  if (named === null) return { type: type(text), name: "" };
  const [, before, name, array] = named;
  return { type: type(before! + (array ? "*" : "")), name: name! };
}

function type(text: string): string {
  return text.includes("*") ? "*" : text.replace(/\bconst\b/, "").trim();
}
