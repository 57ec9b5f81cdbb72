/**
 * `deno task test:models`: graphs and checkpoints from the package registry, against what onnxruntime
 * computes of them (`fixtures/make_graphs.py`). Where one cannot be had its tests are left out, and it is
 * said.
 */
import { assert, assertAlmostEquals, assertEquals } from "@std/assert";
import { decodeImage, loadSafetensors, noGrad, Tensor, withDevice } from "@netcl/netcl";
import { loadOnnx, type OnnxModel } from "@netcl/netcl/models";
import { classify, namesOf } from "../../examples/classify.ts";
import { loadNets } from "../../examples/detect.ts";
import { findFaces, nets, runNet } from "../../examples/models/mtcnn.ts";
import {
  type Detect,
  likelihoods,
  SileroVad,
  type VadState,
} from "../../examples/models/silero_vad.ts";
import { hasOpenCL } from "../opencl.ts";
import { pathOf } from "./path_of.ts";
import { RATE, synthesisedSpeech } from "./synthesised_speech.ts";
import expectedFaces from "./fixtures/faces.json" with { type: "json" };
import expected from "./fixtures/graphs.json" with { type: "json" };

const backends = hasOpenCL ? ["cpu", "cl"] : ["cpu"];

/** Numbers that Python makes, too: multiples of 1/1000, from -0.5 on. */
function wave(...shape: number[]): Tensor {
  const size = shape.reduce((a, b) => a * b, 1), half = Math.fround(0.5);
  const data = Float32Array.from(
    { length: size },
    (_, k) => Math.fround(Math.fround((k * 7919) % 1000 / 1000) - half),
  );
  return Tensor.fromHost(data, { shape });
}

function int64(numbers: readonly number[], shape: readonly number[]): Tensor {
  return Tensor.fromHost(BigInt64Array.from(numbers, BigInt), { shape });
}

const count = (size: number) => Array.from({ length: size }, (_, k) => k);

/** The inputs of each graph. */
const graphs: Readonly<Record<string, () => Record<string, Tensor>>> = {
  "text-detector": () => ({ x: wave(1, 3, 96, 128) }),
  "silero-vad": () => ({
    input: wave(1, 576),
    state: Tensor.zeros([2, 1, 128]),
    sr: int64([16_000], []),
  }),
  "minilm-int8": () => ({
    input_ids: int64(count(24).map((k) => 1000 + (k * 7919) % 20_000), [2, 12]),
    attention_mask: int64(count(24).map(() => 1), [2, 12]),
    token_type_ids: int64(count(24).map(() => 0), [2, 12]),
  }),
};

interface Output {
  readonly shape: number[];
  readonly every97th: number[];
  readonly magnitude: number;
}

for (const [name, inputs] of Object.entries(graphs)) {
  const path = await pathOf(name);
  for (const backend of backends) {
    Deno.test(`${name} gives what onnxruntime does, recorded and replayed (${backend})`, {
      ignore: path === null,
    }, () =>
      withDevice(backend, async () => {
        const model = await loadOnnx(path!),
          wanted: Record<string, Output> = expected[name as keyof typeof expected];
        for (let round = 0; round < 3; round++) {
          const outputs = noGrad(() => model.run(inputs()));
          for (const [key, { shape, every97th, magnitude }] of Object.entries(wanted)) {
            assertEquals(outputs[key]!.shape, shape);
            const numbers = await outputs[key]!.toNumbers();
            every97th.forEach((value, k) => assertAlmostEquals(numbers[97 * k]!, value, 1e-4));
            const sum = numbers.reduce((total, value) => total + Math.abs(value), 0);
            assertAlmostEquals(sum, magnitude, 1e-4 * magnitude + 1e-6);
          }
        }
      }));
  }
}

/** The parameters of the graph by the names of the net's safetensors. */
const vadNames: Readonly<Record<string, string>> = {
  "stft_conv.weight": "stft.forward_basis_buffer",
  ...Object.fromEntries(
    [1, 2, 3, 4].flatMap((k) =>
      ["weight", "bias"].map((
        what,
      ) => [`conv${k}.${what}`, `encoder.${k - 1}.reparam_conv.${what}`])
    ),
  ),
  ...Object.fromEntries(
    ["weight_ih", "weight_hh", "bias_ih", "bias_hh"].map((name) => [
      `lstm_cell.${name}`,
      `decoder.rnn.${name}`,
    ]),
  ),
  "final_conv.weight": "decoder.decoder.2.weight",
  "final_conv.bias": "decoder.decoder.2.bias",
};

const vad = await pathOf("silero-vad");

/** Asks a graph of the speech detector. */
function asked(graph: OnnxModel): Detect<Tensor> {
  const sr = int64([16_000], []);
  return (input, state) => {
    const given = { input, sr, state: state ?? Tensor.zeros([2, 1, 128]) };
    const { output, stateN } = graph.run(given);
    return { output: output!, state: stateN! };
  };
}

function askedOf(net: SileroVad): Detect<VadState> {
  return (x, state) => net.forward(x, state ?? [Tensor.zeros([1, 128]), Tensor.zeros([1, 128])]);
}

Deno.test(
  "the speech detector as a module and as two graphs says the same of a sound, and marks its speech",
  { ignore: vad === null },
  () =>
    withDevice(backends.at(-1)!, async () => {
      const sound = synthesisedSpeech(), net = new SileroVad().eval();
      const graph = await loadOnnx(vad!), other = await loadOnnx(vad!.replace("_op18_ifless", ""));
      const named = (name: string) => graph.weights[`model.${vadNames[name]}`]!;
      net.loadStateDict(
        Object.fromEntries(Object.keys(net.stateDict()).map((name) => [name, named(name)])),
      );
      const wanted = await likelihoods(sound, askedOf(net));
      for (const each of [graph, other]) {
        const given = await likelihoods(sound, asked(each));
        given.forEach((value, k) => assertAlmostEquals(value, wanted[k]!, 1e-4));
      }
      assertSpeech(wanted);
      // The package's safetensors holds the weights of another release.
      const file = vad!.replace("_op18_ifless.onnx", "_16k.safetensors");
      net.loadStateDict(await loadSafetensors(file));
      assertSpeech(await likelihoods(sound, askedOf(net)));
    }),
);

/** The voice is there from the first second to the third: 0.1 s at either end are left open. */
function assertSpeech(found: readonly number[]): void {
  found.forEach((value, k) => {
    const from = 512 * k / RATE, to = from + 512 / RATE;
    if (to < 0.9 || from > 3.2) assert(value < 0.5, `${value} at ${from} s, where nobody speaks`);
    if (from > 1.1 && to < 2.9) assert(value > 0.5, `${value} at ${from} s, in the speech`);
  });
}

const weights = await pathOf("efficientnet-lite0"), photo = await pathOf("photos");

Deno.test("EfficientNet-Lite0, from PyTorch's stream, names two photos", {
  ignore: weights === null || photo === null,
}, () =>
  withDevice(backends.at(-1)!, async () => {
    const [palace] = await classify(photo!, weights!, 1);
    const [daisy] = await classify(photo!.replace("china", "flower"), weights!, 1);
    const names = await namesOf("");
    assertEquals([palace, daisy].map((guess) => names[guess!.index]), ["palace", "daisy"]);
  }));

const faces = await pathOf("mtcnn"), portrait = await pathOf("portrait");

for (const backend of backends) {
  Deno.test(`the face detector's nets compute what PyTorch's do (${backend})`, {
    ignore: faces === null,
  }, () =>
    withDevice(backend, async () => {
      const weights = await loadNets(faces!.replace(/\/[^/]*$/, ""));
      for (const [name, { size, values }] of Object.entries(expectedFaces.nets)) {
        const net = name as keyof typeof nets;
        const given = noGrad(() => runNet(weights[net], nets[net], wave(2, 3, size, size)));
        const numbers = await given.toNumbers();
        assertEquals(numbers.length, values.length);
        values.forEach((value, k) => assertAlmostEquals(numbers[k]!, value, 1e-4));
      }
    }));
}

Deno.test(
  "the face detector, from PyTorch's stream, finds the one face of a portrait, and none elsewhere",
  { ignore: faces === null || portrait === null || photo === null },
  () =>
    withDevice("cpu", async () => {
      const weights = await loadNets(faces!.replace(/\/[^/]*$/, ""));
      const find = async (path: string) => {
        const { data, shape: [, height, width] } = await decodeImage(await Deno.readFile(path));
        return findFaces({ data: data as Uint8Array, height: height!, width: width! }, weights, 40);
      };
      const found = await find(portrait!);
      assertEquals(found.length, 1);
      const { x1, y1, x2, y2, score } = found[0]!;
      assert(score > 0.99, `${score}`);
      // PyTorch resamples pictures in another way; the box is the same to some pixels.
      const [wanted] = expectedFaces.portrait.boxes, own = [x1, y1, x2, y2];
      wanted!.forEach((value, k) => assertAlmostEquals(own[k]!, value, 6));
      assertEquals(await find(photo!), []);
    }),
);
