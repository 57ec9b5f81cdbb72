/**
 * The way that a program of several ranks is asked to run in, from its URL: a module is evaluated once
 * for each.
 */
import { basename } from "node:path/posix";

/** The way by its name, `early_program.ts?cl,host`, and the arguments that it is made of. */
export function wayOf(url: string): { readonly way: string; readonly args: readonly string[] } {
  const { pathname, search } = new URL(url), args = decodeURIComponent(search.slice(1));
  return { way: `${basename(pathname)}?${args}`, args: args.split(",") };
}
