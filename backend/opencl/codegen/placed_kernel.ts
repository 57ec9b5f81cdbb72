/**
 * Kernels that came as a text, with a place for each pointer: they take a block as it lies in a memory object, as
 * planned kernels do. To make a memory object of a block takes the host longer than the launch.
 */
import type { CustomKernel } from "../../graph/custom.ts";
import {
  type KernelParameter,
  kernelsIn,
  withoutComments,
} from "../../graph/kernel_declaration.ts";

/** Changes a text; null where it may not be. */
type Change = (kernel: CustomKernel) => string | null;

/** The same, once for each kernel. */
function once(change: Change): Change {
  const known = new WeakMap<CustomKernel, string | null>();
  return (kernel) => {
    let changed = known.get(kernel);
    if (changed === undefined) known.set(kernel, changed = change(kernel));
    return changed;
  };
}

/** A kernel's place in its text: where its parameters begin and end, and its body begins. */
interface Site {
  readonly start: number;
  readonly parameters: number;
  readonly end: number;
  readonly body: number;
}

/** The only kernel of a name, which nobody calls; null where there is none such. */
function siteOf({ name, source }: CustomKernel): Site | null {
  const code = withoutComments(source);
  const own = kernelsIn(code).find(([, kernel]) => kernel === name);
  const named = code.match(new RegExp(String.raw`\b${name}\s*\(`, "g"));
  if (!own || named?.length !== 1) return null;
  const end = own.index + own[0].length - 1, body = /^\)\s*\{/.exec(code.slice(end));
  const start = own.index, parameters = end - own[2]!.length;
  return body && { start, parameters, end, body: end + body[0].length };
}

/**
 * The text with an int for each pointer behind the other parameters, in order: bytes that the kernel adds to it
 * first. Lines stay the same lines, for what the compiler says of them.
 *
 * @returns Null where the text may not be changed so: a pointer is declared in a way of its own, others call the
 * kernel, or it is declared twice behind an `#if`.
 */
export const placedSource: Change = once((kernel) => {
  const { source, declaration } = kernel, site = siteOf(kernel);
  if (!site || !declaration) return null;
  const moves = declaration.pointers.map(moved);
  if (moves.length === 0 || moves.includes(null)) return null;
  const places = moves.map((_, k) => `, int ${placeOf(k)}`).join("");
  const [before, between] = [source.slice(0, site.end), source.slice(site.end, site.body)];
  return `${before}${places}${between} ${moves.join(" ")}${source.slice(site.body)}`;
});

/**
 * The text with one parameter for all of them: words of 64 bits, as `addressed_kernel.ts` has them; pointers, numbers,
 * then the bytes that are added to each pointer.
 *
 * @returns Null where the text may not be changed so: as of {@linkcode placedSource}, and where a pointer is told to
 * be no other's, which only a parameter can be, or a number is a half.
 */
export const addressedSource: Change = once((kernel) => {
  const { source, declaration } = kernel, site = siteOf(kernel);
  if (!site || !declaration || !/(?:^|[;}]|^\s*#.*)\s*$/m.test(beforeOf(kernel, site))) return null;
  const { pointers, numbers } = declaration, count = pointers.length + numbers.length;
  const taken = [
    ...pointers.map((pointer, k) => takenPointer(pointer, k, count + k)),
    ...numbers.map((number, k) => takenNumber(number, pointers.length + k)),
  ];
  if (pointers.length === 0 || taken.includes(null)) return null;
  const lines = source.slice(site.parameters, site.end).replaceAll(/[^\n]/g, "");
  return `${source.slice(0, site.start)}typedef struct { ulong at[${
    wordsOfText(kernel)
  }]; } netcl_words; ${
    source.slice(site.start, site.parameters)
  }const netcl_words netcl_given${lines}${source.slice(site.end, site.body)} ${taken.join(" ")}${
    source.slice(site.body)
  }`;
});

/** The number of words of {@linkcode addressedSource}. */
export function wordsOfText({ declaration }: CustomKernel): number {
  return 2 * declaration!.pointers.length + declaration!.numbers.length;
}

/** The last line of code before a kernel. */
function beforeOf({ source }: CustomKernel, { start }: Site): string {
  return withoutComments(source).slice(0, start).trimEnd().split("\n").at(-1)!;
}

const word = (k: number): string => `netcl_given.at[${k}]`;

/** Declares pointer k, whose place is another word; null where its declaration is not a plain one. */
function takenPointer({ name, text }: KernelParameter, k: number, place: number): string | null {
  const [, type] = /^((?:(?:__)?global|const|\w+|\s)+\*) ?\w+$/.exec(text) ?? [];
  if (type === undefined || !/\b(?:__)?global\b/.test(type)) return null;
  return `${type} ${name} = (${type})(${word(k)} + ${word(place)});`;
}

/** Declares a number, which is word k; null for a half, and one in a declaration of its own. */
function takenNumber({ text, type }: KernelParameter, k: number): string | null {
  if (type === null || type === "half" || !/^[\w ]+$/.test(text)) return null;
  if (type === "float") return `${text} = as_float((uint)${word(k)});`;
  return `${text} = ${type === "double" ? `as_double(${word(k)})` : `(${type})${word(k)}`};`;
}

const placeOf = (k: number): string => `netcl_at${k}`;

/** The statement that moves pointer k; null where its declaration is not a plain one. */
function moved({ name, text, isConst }: KernelParameter, k: number): string | null {
  const [, type] = /^([\w ]+\*) ?(?:(?:__)?restrict )?\w+$/.exec(text) ?? [];
  const [, space] = /\b(?:__)?(global|constant)\b/.exec(type ?? "") ?? [];
  if (type === undefined || space === undefined) return null;
  const bytes = space === "global" && isConst ? "global const" : space;
  return `${name} = (${type})((${bytes} char*)${name} + ${placeOf(k)});`;
}
