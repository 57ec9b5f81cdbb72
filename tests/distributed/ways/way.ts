/**
 * The way that a program of several ranks is asked to run in, from its URL: a module is evaluated once
 * for each.
 */
export function wayOf(url: string): { readonly way: string; readonly args: readonly string[] } {
  const way = decodeURIComponent(new URL(url).search.slice(1));
  return { way, args: way.split(",") };
}
