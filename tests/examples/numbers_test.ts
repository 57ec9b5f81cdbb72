/** The programs about numbers that are no network: what they find is what is there. */
import { assert, assertEquals } from "@std/assert";
import { loadImage, saveWav, Tensor } from "../../mod.ts";
import { runDeno } from "../run_deno.ts";
import { testOnCPU } from "../opencl.ts";

async function run(name: string, args: readonly string[] = []): Promise<string> {
  const path = new URL(`../../examples/numbers/${name}.ts`, import.meta.url);
  const env = { NETCL_DEVICE: "cpu" };
  const { code, out, err } = await runDeno(["run", "-A", "--no-check", path.href, ...args], {
    env,
  });
  assertEquals(code, 0, err);
  return out;
}

testOnCPU("gaussian_process.ts finds the noise, and the sine to three deviations", async () => {
  const out = await run("gaussian_process");
  const [, noise] = /^noise (\S+),/m.exec(out)!;
  assert(Math.abs(Number(noise) - 0.1) < 0.03, out);
  const found = [...out.matchAll(/= (\S+) \+- (\S+), in truth (\S+)/g)].map((row) =>
    row.map(Number)
  );
  assertEquals(found.length, 6);
  for (const [, value, width, truth] of found) assert(Math.abs(value! - truth!) < 3 * width!, out);
});

testOnCPU("spectrogram.ts reads a WAV file, and draws a picture of its frequencies", async () => {
  const folder = await Deno.makeTempDir();
  try {
    const [sound, picture] = [`${folder}/tone.wav`, `${folder}/tone.png`];
    const time = Tensor.arange(0, 8000, 1, { dtype: "float32" }).div(8000);
    await saveWav(sound, time.mul(2 * Math.PI * 1000).sin().unsqueeze(0), { sampleRate: 8000 });
    const out = await run("spectrogram", [sound, picture]);
    assertEquals(
      [...out.matchAll(/loudest at (\d+) Hz/g)].map(([, f]) => f),
      Array(3).fill("1000"),
    );
    const image = await loadImage(picture);
    assertEquals(image.shape, [3, 257, 63]);
    // The row of 1,000 Hz is the brightest: 64 of 256 from the bottom, and beside it.
    const row = await image.cast("float32").sum([0, 2]).argmax().item();
    assert(Math.abs(row - (256 - 64)) <= 1, `row ${row}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
});

testOnCPU("kalman.ts errs half as much as what it sees, of all tracks as of one", async () => {
  const out = await run("kalman");
  const [seen, found] = [...out.matchAll(/error of .*: (\S+)$/gm)].map(([, x]) => Number(x));
  assert(found! < 0.6 * seen!, out);
  assert(out.includes("one by one: true"), out);
});
