/**
 * Runs every example on a terminal and writes what they print and draw into examples/README.md.
 *
 *     deno task gallery [--only FILE]
 *
 * It takes some minutes, and needs what the examples need: `script` (util-linux) for the terminal,
 * mpirun, Chromium and the data of Fashion-MNIST.
 */
import { fileURLToPath } from "node:url";
import { findBrowser, Page } from "../../tests/examples/browser.ts";
import { helpOf, optionsWith, parseFlags, reportUsage, UsageError } from "../flags.ts";
import { entries, type Entry } from "./gallery/entries.ts";
import { commandOf, galleryPage, sectionsOf } from "./gallery/page.ts";
import { type Cell, replay, textOf } from "./gallery/terminal_cells.ts";
import { drawTerminal } from "./gallery/terminal_picture.ts";

const examples = new URL("../", import.meta.url), images = new URL("guide/images/", examples);
const readme = new URL("README.md", examples);
/** Width of a picture that fits beside the text of a page. */
const COLUMNS = 96;
/** Open MPI asks for both where the user is root. */
const asRoot = { OMPI_ALLOW_RUN_AS_ROOT: "1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM: "1" };
const CTRL_C = Uint8Array.of(3);
const address = /http:\/\/localhost:\d+/;

/** Runs an example on a terminal; gives all that it wrote. */
async function onTerminal(
  { file, args, launcher = [], page }: Entry,
  folder: string,
): Promise<string> {
  const port = page ? ["--port", "0"] : [];
  const words = [...launcher, Deno.execPath(), "run", "-A", "--no-check"];
  words.push(fileURLToPath(new URL(file, examples)), ...args, ...port);
  const command = words.map((word) => `'${word}'`).join(" ");
  const child = new Deno.Command("script", {
    args: ["-q", "-e", "-c", `stty cols ${COLUMNS} rows 60; exec ${command}`, "/dev/null"],
    cwd: folder,
    env: { NO_COLOR: "", TERM: "xterm-256color", ...asRoot },
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const keyboard = child.stdin.getWriter();
  let written = "", photographed: Promise<void> | null = null;
  for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
    written += text;
    const [found] = address.exec(written) ?? [];
    if (page && found) {
      photographed ??= photograph(found, page.image).finally(() => keyboard.write(CTRL_C));
    }
  }
  await photographed;
  await keyboard.close();
  const { code } = await child.status;
  if (code !== 0 && !page) throw new Error(`${file} ended with status ${code}:\n${written}`);
  return written;
}

/** Draws a digit on the page with the mouse and keeps a picture of it. */
async function photograph(url: string, image: string): Promise<void> {
  const browser = findBrowser();
  if (browser === null) throw new UsageError("There is no browser: install Chromium");
  await using page = await Page.open(browser, url);
  const size = { width: 720, height: 540, deviceScaleFactor: 1, mobile: false };
  await page.send("Emulation.setDeviceMetricsOverride", size);
  const box = JSON.parse(
    await page.evaluate("JSON.stringify(board.getBoundingClientRect())") as string,
  );
  const circle = Array.from({ length: 40 }, (_, k): [number, number] => {
    const angle = 2 * Math.PI * k / 36;
    return [box.x + 160 + 75 * Math.sin(angle), box.y + 160 - 120 * Math.cos(angle)];
  });
  await page.drag(circle);
  await new Promise((resolve) => setTimeout(resolve, 800)); // what it has read is shown
  const { data } = await page.send("Page.captureScreenshot", { format: "png" });
  const bytes = Uint8Array.from(atob(data as string), (byte) => byte.charCodeAt(0));
  await Deno.writeFile(new URL(image, images), bytes);
}

/** The last text on the terminal; the user's folder is none of the readers' business. */
function screenOf(written: string): Cell[][] {
  const home = Deno.env.get("HOME");
  const rows = replay(home ? written.replaceAll(home, "~") : written, COLUMNS);
  while (rows.length > 0 && ["", "^C"].includes(textOf(rows.slice(-1))[0]!)) rows.pop();
  return rows;
}

/** Runs an example, keeps its pictures, and gives the text of its output. */
async function show(entry: Entry): Promise<string> {
  const folder = await Deno.makeTempDir();
  try {
    const rows = screenOf(await onTerminal(entry, folder));
    for (const { from, image } of entry.pictures ?? []) {
      await Deno.copyFile(`${folder}/${from}`, new URL(image, images));
    }
    if (entry.terminal === undefined) return textOf(rows).join("\n");
    const picture = drawTerminal(rows, commandOf(entry));
    await Deno.writeTextFile(new URL(entry.terminal, images), picture);
    return "";
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function main(only: string): Promise<void> {
  const files = [...new Set(entries.map(({ file }) => file))];
  if (only !== "" && !files.includes(only)) {
    throw new UsageError(`--only takes one of ${files.join(", ")}: got "${only}"`);
  }
  const sections = new Map(sectionsOf(await Deno.readTextFile(readme)));
  for (const entry of entries) {
    if (entry.needs || only !== "" && entry.file !== only) continue;
    console.log(commandOf(entry));
    sections.set(commandOf(entry), await show(entry));
    await Deno.writeTextFile(readme, galleryPage(sections));
  }
  const format = ["fmt", "--quiet", fileURLToPath(readme)];
  const { success } = await new Deno.Command(Deno.execPath(), { args: format }).output();
  if (!success) throw new Error("deno fmt has failed on examples/README.md");
}

const about = "Runs every example and writes what they print and draw into examples/README.md.";
const flags = optionsWith({ only: "" });
await reportUsage(() => {
  const values = parseFlags(Deno.args, flags);
  if (values === "help") return console.log(helpOf(about, "examples/tools/gallery.ts", flags));
  return main(values.only);
});
