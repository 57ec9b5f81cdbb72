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

const known = new WeakMap<CustomKernel, string | null>();

/**
 * The text with an int for each pointer behind the other parameters, in order: bytes that the kernel adds to it
 * first. Lines stay the same lines, for what the compiler says of them.
 *
 * @returns Null where the text may not be changed so: a pointer is declared in a way of its own, others call the
 * kernel, or it is declared twice behind an `#if`.
 */
export function placedSource(kernel: CustomKernel): string | null {
  let placed = known.get(kernel);
  if (placed === undefined) known.set(kernel, placed = withPlaces(kernel));
  return placed;
}

function withPlaces({ name, source, declaration }: CustomKernel): string | null {
  const code = withoutComments(source);
  const own = kernelsIn(code).find(([, kernel]) => kernel === name);
  const named = code.match(new RegExp(String.raw`\b${name}\s*\(`, "g"));
  if (!own || named?.length !== 1 || !declaration) return null;
  const moves = declaration.pointers.map(moved), end = own.index + own[0].length;
  const body = /^\s*\{/.exec(code.slice(end));
  if (moves.length === 0 || moves.includes(null) || !body) return null;
  const start = end + body[0].length, places = moves.map((_, k) => `, int ${placeOf(k)}`);
  const [before, between] = [source.slice(0, end - 1), source.slice(end - 1, start)];
  return `${before}${places.join("")}${between} ${moves.join(" ")}${source.slice(start)}`;
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
