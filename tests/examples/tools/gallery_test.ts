import { assert, assertEquals, assertThrows } from "@std/assert";
import { entries } from "../../../examples/tools/gallery/entries.ts";
import { commandOf, galleryPage, sectionsOf } from "../../../examples/tools/gallery/page.ts";
import { replay, textOf } from "../../../examples/tools/gallery/terminal_cells.ts";
import { drawTerminal } from "../../../examples/tools/gallery/terminal_picture.ts";

const examples = new URL("../../../examples/", import.meta.url);
const page = Deno.readTextFileSync(new URL("README.md", examples));

/** Files that one runs: they read the command line. */
function programs(): string[] {
  const isProgram = /^(if \(import\.meta\.main\) )?await (runExample|reportUsage)\(/m;
  return ["", "models/", "tools/"].flatMap((folder) =>
    [...Deno.readDirSync(new URL(folder, examples))].map(({ name }) => `${folder}${name}`)
  ).filter((name) =>
    name.endsWith(".ts") && name !== "tools/gallery.ts" &&
    isProgram.test(Deno.readTextFileSync(new URL(name, examples)))
  );
}

Deno.test("every example is in the gallery, with what it prints or draws", () => {
  const shown = new Set(entries.map(({ file }) => file));
  assert(programs().length >= 10, programs().join());
  assertEquals(programs().filter((name) => !shown.has(name)), []);
  const outputs = new Map(sectionsOf(page));
  for (const entry of entries) {
    if (entry.needs) continue;
    const { terminal, pictures = [], page: served } = entry;
    const images = [terminal, served?.image, ...pictures.map(({ image }) => image)]
      .filter((image) => image !== undefined);
    for (const image of images) {
      assert(Deno.statSync(new URL(`guide/images/${image}`, examples)).size > 1000, image);
      assert(page.includes(`(guide/images/${image})`), image);
    }
    const output = outputs.get(commandOf(entry));
    assert(output !== undefined, `"${commandOf(entry)}" is not on the page: run deno task gallery`);
    assert(images.length > 0 || output.split("\n").length > 5, commandOf(entry));
  }
});

Deno.test("the page is what its entries and their outputs make", () => {
  const words = (text: string) => text.replaceAll(/\s+/g, " ").trim();
  assertEquals(words(page), words(galleryPage(new Map(sectionsOf(page)))));
  assert(!/\/(root|home|tmp)\//.test(page), "no folder of the machine that made it");
});

Deno.test("a terminal is replayed as people see it: wrapped, rewritten, erased", () => {
  assertEquals(textOf(replay("abcdef", 4)), ["abcd", "ef"]);
  assertEquals(textOf(replay("one\rtwo\n\x1b[2KX\x1b[1A\x1b[3Gr\x1b[K")), ["twr", "X"]);
  assertThrows(() => replay("\x1b[5S"), RangeError, "ESC[5S");
});

Deno.test("a picture of a terminal has letters in their colours, frames and dots as shapes", () => {
  const svg = drawTerminal(replay("\x1b[34ma <b>\x1b[39m │\n⣿"), "run & see");
  assert(svg.includes('fill="#60a5fa">&lt;b></text>'), svg);
  assert(svg.includes("run</text>") && svg.includes("&amp;</text>"), svg);
  assertEquals(svg.match(/h2\.4v2\.4h-2\.4z/g)?.length, 8, "the dots of a full cell");
  assertEquals(svg.match(/h1\.5v18h-1\.5z/g)?.length, 1, "one rule");
  assert(!/[│⣿]/.test(svg), "no fonts are needed for them");
});

Deno.test("every training loop can be copied: it uses the package, and what lies beside it, alone", () => {
  const loops = ["train", "vae", "transformer"].map((folder) => `${folder}/loop.ts`);
  for (const loop of loops) {
    const text = Deno.readTextFileSync(new URL(loop, examples));
    const names = [...text.matchAll(/from "(.*)"/g)].map(([, name]) => name!);
    assert(names.includes("@netcl/netcl"), loop);
    assertEquals(
      names.filter((name) => name !== "@netcl/netcl" && !/^\.\/\w+\.ts$/.test(name)),
      [],
    );
    assert(page.includes(`\`${loop}\``), loop);
  }
});
