import { assertEquals } from "@std/assert";
import { linker } from "./opencl.ts";

/** Arguments that the linker first on PATH passes to the one behind it. */
async function askedOf(args: readonly string[]): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    const real = `${folder}/ld`;
    await Deno.writeTextFile(real, '#!/bin/sh\necho "$@"\n', { mode: 0o755 });
    const env = { PATH: `${linker}:${folder}:${Deno.env.get("PATH")}` };
    const { stdout } = await new Deno.Command("ld", { args: [...args], env }).output();
    return new TextDecoder().decode(stdout).trim();
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

const ignore = Deno.build.os === "windows";

Deno.test("a kernel of PoCL is linked without libraries", { ignore }, async () => {
  const args = "-m elf_x86_64 -shared -o /c/tempfile_1.so /crti.o /c/tempfile_2.so.o -lm -lc"
    .split(" ");
  const asked = "-shared -z noseparate-code -o /c/tempfile_1.so /c/tempfile_2.so.o";
  assertEquals(await askedOf(args), asked);
});

Deno.test("whatever else is linked as it asks for", { ignore }, async () => {
  const args = "-o program main.o -lm -L/a/b".split(" ");
  assertEquals(await askedOf(args), args.join(" "));
});
