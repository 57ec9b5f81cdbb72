import { entries, type Entry, type Picture } from "./entries.ts";

/** The command of an entry, in the folder of the package. */
export function commandOf({ file, args, launcher = [] }: Entry): string {
  return [...launcher, "deno run -A", `examples/${file}`, ...args].join(" ");
}

/**
 * The page: every entry with its command, what it prints and what it draws.
 *
 * @param outputs What each command has printed.
 */
export function galleryPage(outputs: ReadonlyMap<string, string>): string {
  return `# Examples

Each runs from anywhere with \`deno run -A FILE\`, and all but the first take \`--help\`; what one fetches, its text says. The training loops, \`train/loop.ts\`, \`vae/loop.ts\` and \`transformer/loop.ts\`, use the package alone: copy them; the pictures on the terminal are \`terminal/\`. Those that compute take \`--device\` and \`--seed\`. On a terminal, what goes on is rewritten in place; elsewhere,
and with \`NO_COLOR=1\`, it is plain lines. \`deno task gallery\` has made this page.

The [guide](guide/README.md) explains; [data](data/README.md) says where the data come from.

${entries.map((entry) => section(entry, outputs.get(commandOf(entry)) ?? "")).join("\n")}`;
}

function section(entry: Entry, output: string): string {
  const { file, title = file, about, needs, terminal, pictures = [], page } = entry;
  const shown = [
    ...terminal ? [{ image: terminal, alt: `The terminal after ${file} has run` }] : [],
    ...pictures,
    ...page ? [page] : [],
  ];
  const lines = output.split("\n"), rows = entry.rows ?? lines.length;
  const text = [...lines.slice(0, rows), ...lines.length > rows ? ["..."] : []].join("\n");
  return [
    `## [${title}](${file})\n`,
    `${needs ? `${about} ${needs}` : about}\n`,
    "```sh\n" + commandOf(entry) + "\n```\n",
    ...text === "" ? [] : ["```text\n" + text + "\n```\n"],
    ...shown.map(({ image, alt }: Picture) => `![${alt}](guide/images/${image})\n`),
  ].join("\n");
}

/** The output of each command on the page, so that one program may be run alone. */
export function sectionsOf(page: string): [command: string, output: string][] {
  const sections = page.matchAll(/```sh\n(.*)\n```\n(?:\n```text\n([^]*?)\n```)?/g);
  return [...sections].map(([, command, output]) => [command!, output ?? ""]);
}
