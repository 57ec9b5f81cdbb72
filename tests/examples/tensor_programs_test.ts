import { assert, assertEquals } from "@std/assert";
import { drawImages } from "../../examples/vae/images.ts";
import { runExample } from "./run_example.ts";

Deno.test("clusters.ts finds the groups that the points were drawn from", async () => {
  const run = await runExample("clusters.ts", ["--points", "900", "--seed", "3"]);
  assertEquals(run.code, 0, run.err);
  const [, spread] = /centre: (\S+)/.exec(run.out)!;
  // Two axes with a standard deviation of 0.13 each.
  assert(Math.abs(Number(spread) - 2 * 0.13 ** 2) < 0.004, run.out);
  for (const letter of "abcdef") assert(run.out.includes(letter), `a group ${letter}`);
});

Deno.test("vae.ts learns, and draws as many digits as it was asked for", async () => {
  const out = await Deno.makeTempDir();
  try {
    const run = await runExample("vae.ts", ["--epochs", "6", "--rows", "2", "--out", out]);
    assertEquals(run.code, 0, run.err);
    const losses = [...run.out.matchAll(/ loss (\S+)/g)].map(([, loss]) => Number(loss));
    assertEquals(losses.length, 6);
    assert(losses.at(-1)! < 0.85 * losses[0]!, run.out);
    assert(run.out.includes("24 digits"));
    assert((await Deno.readTextFile(`${out}/digits.svg`)).startsWith("<svg "));
  } finally {
    await Deno.remove(out, { recursive: true });
  }
});

Deno.test("images are drawn where they belong, by their shades", () => {
  const svg = drawImages(new Float32Array([0, 1, 0.5, 0, 0, 0, 0, 1]), { size: 2, columns: 2 });
  const paths = [...svg.matchAll(/<path fill="rgb\((\d+),[^"]*" d="([^"]*)"/g)];
  assertEquals(paths.map(([, shade, d]) => [Number(shade), d!.match(/M/g)!.length]), [[128, 1], [
    255,
    2,
  ]]);
  assert(paths[1]![2]!.includes("M11 6"), "the second pixel of the first image");
  assert(paths[1]![2]!.includes("M27 11"), "the last pixel of the second one");
});
