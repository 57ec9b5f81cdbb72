/**
 * Runs programs of `tests/distributed` one after the other in the same ranks: `in_turn_program.ts WAY...`,
 * where a way is a program and its arguments: `early_program.ts?cl,host`. What a rank needs once it makes
 * once: netcl, its kernels, the code that V8 compiles.
 */
for (const way of Deno.args) {
  const [program, args] = way.split("?");
  await import(new URL(`../${program}?${encodeURIComponent(args!)}`, import.meta.url).href);
}

export {};
