/**
 * Runs a program of `tests/distributed` in several ways, one after the other in the same ranks:
 * `in_turn_program.ts PROGRAM WAY...`, where a way is the program's arguments, parted by commas. What a
 * rank needs once it makes once: netcl, its kernels, the code that V8 compiles.
 */
const [program, ...ways] = Deno.args;

for (const way of ways) {
  await import(new URL(`../${program}?${encodeURIComponent(way)}`, import.meta.url).href);
}

export {};
