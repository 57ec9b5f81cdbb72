/**
 * `deno task bench:language`: tokens a second of language models, one at a time behind a prompt, beside llama.cpp in
 * the same run where its Python package is there, and beside what memory and products of the device allow.
 *
 *     deno task bench:language --model 1b --type q4_k --prompt 512 --tokens 256
 *
 * Models of random weights are made on the device; nothing is fetched for them.
 */
import { type DeviceHandle, manager } from "../../mod.ts";
import { LanguageModel } from "../../tensor/models/mod.ts";
import type { Decoder } from "../../tensor/models/language/decoder/decoder.ts";
import { registryModel, statOf } from "../../examples/models/registry_models.ts";
import { argumentsOrExit, flagValues } from "../arguments.ts";
import { LlamaPeer } from "./llama_peer.ts";
import {
  bytesPerToken,
  productSpeed,
  readBandwidth,
  type TextRun,
  TextTimer,
  type TextTimes,
  weightBytes,
} from "./measure.ts";
import { blockLength, randomDecoder, randomModels, weightTypes } from "./random_models.ts";

const help = `deno task bench:language [options]
  --model A,B    ${
  Object.keys(randomModels).join(", ")
} (random weights), smollm2-135m, or a file (default smollm2-135m)
  --type A,B     of random weights: ${Object.keys(weightTypes).join(", ")}; default bfloat16,q4_k
  --prompt N     tokens to read (default 512)
  --tokens N     tokens to write (default 256)
  --cache int8   keeps what was read as bytes
  --rounds N     texts, in turn with the peer's (default 3)
  --python FILE  the Python that has llama_cpp (default python3)
  --threads N    of the peer, which wait in loops: fewer than cores on a busy machine (default all)
  --bandwidth N  GB/s of the device's memory, where a data sheet says so (default as measured)
  NETCL_DEVICE=gpu|cl|cpu picks the device`;

interface Options {
  readonly models: readonly string[];
  readonly types: readonly (keyof typeof weightTypes)[];
  readonly prompt: number;
  readonly tokens: number;
  readonly rounds: number;
  readonly python: string;
  readonly threads: number;
  readonly hasByteCache: boolean;
  readonly bandwidth: number | null;
}

function parseOptions(args: string[]): Options | null {
  const string = { type: "string" } as const;
  const values = flagValues(args, {
    model: string,
    type: string,
    prompt: string,
    tokens: string,
    rounds: string,
    python: string,
    threads: string,
    cache: string,
    bandwidth: string,
    help: { type: "boolean" },
  });
  if (values.help === true) return null;
  const count = (name: "prompt" | "tokens" | "rounds" | "threads" | "bandwidth", plain: number) => {
    const given = Number(values[name] ?? plain);
    if (given >= 1 && Number.isFinite(given)) return given;
    throw new TypeError(`--${name} takes a number of at least 1, not "${values[name]}"`);
  };
  if (values.cache !== undefined && values.cache !== "int8") {
    throw new TypeError(`--cache takes int8, not "${values.cache}"`);
  }
  const types = (values.type ?? "bfloat16,q4_k").split(",");
  const odd = types.find((type) => !Object.hasOwn(weightTypes, type));
  if (odd !== undefined) {
    throw new TypeError(`--type takes ${Object.keys(weightTypes).join(", ")}, not "${odd}"`);
  }
  return {
    models: (values.model ?? "smollm2-135m").split(","),
    types: types as Options["types"],
    prompt: count("prompt", 512),
    tokens: count("tokens", 256),
    rounds: count("rounds", 3),
    python: values.python ?? "python3",
    threads: count("threads", navigator.hardwareConcurrency),
    hasByteCache: values.cache === "int8",
    bandwidth: values.bandwidth === undefined ? null : count("bandwidth", 1) * 1e9,
  };
}

/** The most that a device does. */
interface Limits {
  /** Bytes a second. */
  readonly bandwidth: number;
  /** Operations a second, by the type of the products. */
  readonly products: Map<"float32" | "bfloat16", number>;
}

async function limitsOf(device: DeviceHandle, given: number | null): Promise<Limits> {
  const isGpu = device.deviceType === "gpu";
  const bandwidth = given ?? await readBandwidth(device, isGpu ? 4096 : 256);
  const products: Limits["products"] = new Map();
  for (const dtype of isGpu ? ["float32", "bfloat16"] as const : ["float32"] as const) {
    products.set(dtype, await productSpeed(device, 512, isGpu ? 4096 : 1024, dtype));
  }
  return { bandwidth, products };
}

function median(values: readonly number[]): number {
  return values.toSorted((a, b) => a - b)[values.length >> 1]!;
}

const medians = (all: readonly TextTimes[]): TextTimes => ({
  prompt: median(all.map(({ prompt }) => prompt)),
  token: median(all.map(({ token }) => token)),
});

const percent = (share: number): string => `${(100 * share).toFixed(0)} %`;

/** Prints the figures of a model. */
function report(
  decoder: Decoder,
  name: string,
  times: TextTimes,
  { memoryBytes, cacheBytes, positionBytes }: TextRun,
  peer: { readonly title: string; readonly times: TextTimes } | null,
  { prompt, tokens }: Options,
  { bandwidth, products }: Limits,
): void {
  const weights = weightBytes(decoder);
  const read = bytesPerToken(decoder) + positionBytes * (prompt + tokens / 2);
  const elements = decoder.config.vocabulary * decoder.config.width;
  // Two operations a weight and token; the last layer reads one position only.
  const perLayer = operationsOf(decoder), work = 2 * prompt * perLayer + 2 * elements;
  console.log(`\n${name}: ${(weights / 1e6).toFixed(0)} MB of weights`);
  console.log(
    `  a token     ${(1 / times.token).toFixed(1)} tokens/s, ${
      (1000 * times.token).toFixed(2)
    } ms; ` +
      `${percent(read / times.token / bandwidth)} of the memory's bandwidth ` +
      `(floor ${(1000 * read / bandwidth).toFixed(2)} ms for ${(read / 1e6).toFixed(0)} MB)`,
  );
  const shares = [...products].map(([dtype, speed]) =>
    `${percent(work / times.prompt / speed)} of products in ${dtype}`
  );
  console.log(
    `  the prompt  ${(prompt / times.prompt).toFixed(0)} tokens/s, ${
      (1000 * times.prompt).toFixed(1)
    } ms for ${prompt}; ${shares.join(", ")}`,
  );
  console.log(
    `  memory      ${(memoryBytes / 1e6).toFixed(0)} MB: weights, cache of ${
      (cacheBytes / 1e6).toFixed(0)
    }, and ${percent((memoryBytes - weights - cacheBytes) / (weights + cacheBytes))} more`,
  );
  if (!peer) return;
  console.log(
    `  ${peer.title}: ${(1 / peer.times.token).toFixed(1)} tokens/s, prompt ${
      (prompt / peer.times.prompt).toFixed(0)
    }; netcl's are ${(peer.times.token / times.token).toFixed(2)} and ${
      (peer.times.prompt / times.prompt).toFixed(2)
    } of that`,
  );
}

/** Weights that multiply a position in the layers. */
function operationsOf({ config }: Decoder): number {
  const { width, heads, keyHeads, headFeatures, innerWidth, layers } = config;
  const attention = width * headFeatures * (2 * heads + 2 * keyHeads);
  return layers.length * (attention + 3 * width * (innerWidth ?? 4 * width));
}

/** Measures a decoder in turn with the peer that reads the same file. */
async function measure(
  decoder: Decoder,
  name: string,
  file: string | null,
  options: Options,
  limits: Limits,
): Promise<void> {
  const { prompt, tokens, rounds, python, threads, hasByteCache } = options;
  decoder.hasByteCache = hasByteCache;
  using timer = new TextTimer(decoder);
  await using peer = file === null ? null : await LlamaPeer.start(python, file, threads);
  const ours: TextRun[] = [], theirs: TextTimes[] = [];
  await timer.text(prompt, Math.min(tokens, 8));
  for (let round = 0; round < rounds; round++) {
    ours.push(await timer.text(prompt, tokens));
    if (peer) theirs.push(await peer.text(prompt, tokens));
  }
  const other = peer && { title: peer.title, times: medians(theirs) };
  report(decoder, name, medians(ours), ours.at(-1)!, other, options, limits);
}

async function run(options: Options): Promise<void> {
  const { active } = manager;
  console.log(active.deviceName);
  const limits = await limitsOf(active, options.bandwidth);
  const products = [...limits.products].map(([type, speed]) =>
    `${(speed / 1e12).toFixed(2)} TFLOP/s in ${type}`
  );
  console.log(
    `memory ${(limits.bandwidth / 1e9).toFixed(0)} GB/s, products ${products.join(", ")}`,
  );
  for (const model of options.models) {
    if (Object.hasOwn(randomModels, model)) {
      for (const type of options.types) {
        const { hidden_size: width } = randomModels[model]!,
          blocks = blockLength(weightTypes[type]);
        if (Number(width) % blocks !== 0) {
          console.log(
            `left out: ${model} in ${type}: its width of ${width} is no multiple of ${blocks}`,
          );
          continue;
        }
        const decoder = await randomDecoder(model, weightTypes[type], active);
        await measure(decoder, `${model} ${type}`, null, options, limits);
        decoder.dispose();
      }
    } else {
      const file = await statOf(model) ? model : await registryModel(model);
      using lm = await LanguageModel.load(file, { device: active });
      await measure(lm.model as Decoder, model, file, options, limits);
    }
  }
}

if (import.meta.main) {
  const options = argumentsOrExit(parseOptions);
  if (options === null) console.log(help);
  else await run(options);
}
