/**
 * A page on which to draw a digit, and a model that reads it while it is drawn. Trains for a few seconds
 * first, or loads what `examples/train.ts --model cnn` has saved.
 *
 *     deno run -A examples/serve.ts --help
 */
import {
  interruptSignal,
  loadSafetensors,
  type nn,
  noGrad,
  Tensor,
  transforms,
} from "@netcl/netcl";
import { optionsWith, UsageError } from "./flags.ts";
import { runExample } from "./run_example.ts";
import { shown } from "./terminal/progress.ts";
import { loadDataset } from "./train/datasets.ts";
import { train } from "./train/loop.ts";
import { makeModel } from "./train/model.ts";

const SIZE = 8;

/** Trains with digits as people draw them on a screen: shifted a little, so that their place matters less. */
async function teach(model: nn.Module, epochs: number, seed: number): Promise<void> {
  const { train: seen, test } = await loadDataset({ dataset: "digits", data: "", seed });
  const augment = (images: Tensor) => transforms.randomCrop(images, SIZE, { padding: 1 });
  const steps = train(model, seen, test, { epochs, batchSize: 32, lr: 3e-3, seed, augment });
  const stepsPerRound = Math.ceil(seen.length / 32);
  const plan = { steps: epochs * stepsPerRound, stepsPerRound, unit: "digits" };
  await Array.fromAsync(shown(steps, plan));
}

/** @throws UsageError for a file that is none, is damaged, or holds another model. */
async function load(model: nn.Module, path: string): Promise<void> {
  try {
    model.loadStateDict(await loadSafetensors(path));
  } catch (error) {
    if (!(error instanceof Error)) throw error;
    throw new UsageError(`--weights takes a digit CNN that train.ts has saved: ${error.message}`);
  }
}

/** 64 numbers from 0 to 1, or what is wrong with them. */
function parsePixels(body: unknown): number[] | string {
  const isPixel = (value: unknown) => typeof value === "number" && value >= 0 && value <= 1;
  if (!Array.isArray(body) || body.length !== SIZE * SIZE) return "send an array of 64 numbers";
  return body.every(isPixel) ? body : "each number is a shade from 0 to 1";
}

/** The answer to a request. */
function answering(model: nn.Module): (request: Request) => Promise<Response> {
  const page = Deno.readTextFileSync(new URL("./serve/page.html", import.meta.url));
  return async (request) => {
    const { pathname } = new URL(request.url);
    if (pathname === "/" && request.method === "GET") {
      return new Response(page, { headers: { "content-type": "text/html; charset=utf-8" } });
    }
    if (pathname !== "/read" || request.method !== "POST") {
      return new Response("There are GET / and POST /read.", { status: 404 });
    }
    const pixels = parsePixels(await request.json().catch(() => null));
    if (typeof pixels === "string") return Response.json({ error: pixels }, { status: 400 });
    using image = Tensor.fromHost(new Float32Array(pixels), { shape: [1, 1, SIZE, SIZE] });
    using probabilities = noGrad(() => model.forward(image).softmax(-1).flatten());
    return Response.json(await probabilities.toNumbers());
  };
}

const about = "Serves a page on which to draw a digit, and reads it.";
const flags = optionsWith({ weights: "", epochs: "15", port: "8000" });
await runExample({ about, file: "examples/serve.ts", flags }, async (values, print) => {
  const model = makeModel("cnn", SIZE);
  if (values.weights === "") await teach(model, Number(values.epochs), Number(values.seed));
  else await load(model, values.weights);
  model.eval();
  const server = Deno.serve({
    port: Number(values.port),
    signal: interruptSignal,
    onListen: ({ port }) => print(`draw at http://localhost:${port} (Ctrl+C ends)`),
  }, answering(model));
  await server.finished;
});
