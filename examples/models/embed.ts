/**
 * Searches a folder of texts by meaning: every paragraph becomes a vector, and those nearest to the question
 * are shown.
 *
 *     deno run -A examples/models/embed.ts --help
 */
import { Embedder } from "@netcl/netcl/models";
import { modelFlag, modelPath } from "./model_path.ts";
import { runExample } from "../run_example.ts";

/** A paragraph, and where it stands. */
interface Passage {
  readonly file: string;
  readonly line: number;
  readonly text: string;
}

/** The paragraphs of the texts of a folder and those below it. */
async function* passagesIn(folder: string): AsyncGenerator<Passage> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    const file = `${folder}/${name}`;
    if (isDirectory && !name.startsWith(".")) yield* passagesIn(file);
    if (!/\.(md|txt)$/.test(name)) continue;
    let line = 1;
    for (const part of (await Deno.readTextFile(file)).split("\n\n")) {
      if (part.trim().length > 40) yield { file, line, text: part.trim() };
      line += part.split("\n").length + 1;
    }
  }
}

const text = (value: string, byDefault: string, help: string) => ({
  value,
  default: byDefault,
  takes: "a text",
  accepts: (given: string) => given !== "",
  help,
});

await runExample({
  about: "Searches a folder of texts by meaning.",
  file: "examples/models/embed.ts",
  flags: {
    model: modelFlag("embedding"),
    folder: text("DIR", "examples/guide", "where the texts are"),
    query: text("TEXT", "How do I find a memory leak?", "what is looked for"),
  },
}, async ({ model, folder, query }, print) => {
  using embedder = await Embedder.load(await modelPath(model, "embedding"));
  const passages = await Array.fromAsync(passagesIn(folder));
  if (passages.length === 0) return print(`There are no .md or .txt files with text in ${folder}`);
  const start = performance.now();
  using vectors = await embedder.embed(passages.map(({ text }) => text));
  using wanted = await embedder.embed(query);
  print(`${passages.length} paragraphs in ${((performance.now() - start) / 1000).toFixed(1)} s`);
  const nearest = vectors.matmul(wanted.transpose()).flatten().topk(Math.min(3, passages.length));
  const scores = await nearest.values.toNumbers(), places = await nearest.indices.toNumbers();
  places.forEach((place, k) => {
    const { file, line, text } = passages[place]!;
    const begin = text.replaceAll(/\s+/g, " ").slice(0, 160);
    print(`${scores[k]!.toFixed(2)} ${file}:${line}  ${begin}`);
  });
});
