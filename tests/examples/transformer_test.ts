// Suite: first; takes long.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Corpus } from "../../examples/transformer/corpus.ts";
import { Transformer } from "../../examples/transformer/model.ts";
import { manualSeed, noGrad, Tensor, withDevice } from "../../mod.ts";
import { ignoreOn, testOnBackends } from "../opencl.ts";
import { runExample } from "./run_example.ts";

const few = ["--steps", "60", "--batch-size", "4", "--length", "30"];

/** The loss of each round of 50 steps, and that of the text that it does not see. */
function losses(out: string): [seen: number, unseen: number][] {
  return [...out.matchAll(/^round .* loss (\S+) {2}unseen (\S+) /gm)]
    .map(([, seen, unseen]) => [Number(seen), Number(unseen)]);
}

Deno.test({
  name: "the transformer learns and writes, the same on both backends",
  ignore: ignoreOn("cl"),
  async fn() {
    const lossesOf: number[][] = [];
    for (const device of ["cpu", "cl"]) {
      let pieces = 0; // of the text, which comes character by character
      const args = [...few, "--device", device];
      const { code, out, err } = await runExample("transformer.ts", args, (out) => {
        if (out.includes("round 2/2")) pieces++;
      });
      assertEquals(code, 0, err);
      assert(pieces > 2, `the text came in ${pieces} pieces`);
      const [first, last] = losses(out), chance = Math.log(59);
      assert(first![0] < chance && first![0] > 2.5, `a little better than chance: ${first}`);
      assert(last![0] < first![0] - 0.2 && last![1] < first![1], out);
      assert(Math.abs(last![0] - last![1]) < 0.3, `it has not learned by heart: ${last}`);
      assertEquals(out.slice(-33, -31), "\n\n", "then 30 characters, and the end of the line");
      lossesOf.push(first!);
    }
    const [cpu, cl] = lossesOf;
    cpu!.forEach((loss, k) => assert(Math.abs(loss - cl![k]!) < 2e-2, `${cpu} ${cl}`));
  },
});

testOnBackends("the same seed writes the same text, another seed another", async (backend) => {
  const run = async (seed: string) => {
    const args = ["--steps", "2", "--batch-size", "2", "--length", "8", "--seed", seed];
    const { out } = await runExample("transformer.ts", [...args, "--device", backend]);
    return out.replaceAll(/ +[\d,]+ characters\/s/g, "");
  };
  const first = await run("1");
  assertEquals(await run("1"), first);
  assert(await run("2") !== first);
});

testOnBackends("Ctrl+C ends the training, not the writing", async (backend) => {
  const args = ["--device", backend, "--steps", "1000000", "--batch-size", "2", "--length", "10"];
  let isSent = false; // a second Ctrl+C would end it at once
  const { code, out, err } = await runExample("transformer.ts", args, (out, child) => {
    if (isSent || losses(out).length === 0) return;
    isSent = true;
    child.kill("SIGINT");
  });
  assertEquals(code, 130, out + err);
  const [, written] = out.split("interrupted: it writes what it has learned\n\n");
  assertEquals(written?.length, 10 + 1, out);
});

Deno.test("the transformer sees no character before it has come", async () => {
  const size = { characters: 7, context: 6, width: 8, heads: 2, layers: 2, dropout: 0.5 };
  await withDevice("cpu", async () => {
    manualSeed(3);
    const model = new Transformer(size);
    model.eval();
    const logits = async (ids: number[]) => {
      const out = noGrad(() => model.forward(Tensor.fromHost(Int32Array.from(ids)).unsqueeze(0)));
      assertEquals(out.shape, [1, 6, 7]);
      return [...await out.flatten().toHost()].map(Number);
    };
    const before = await logits([1, 2, 3, 4, 5, 6]), after = await logits([1, 2, 3, 0, 5, 6]);
    assertEquals(after.slice(0, 3 * 7), before.slice(0, 3 * 7));
    for (let place = 3; place < 6; place++) {
      const row = [place * 7, (place + 1) * 7] as const;
      assert(String(after.slice(...row)) !== String(before.slice(...row)), `place ${place}`);
    }
  });
});

testOnBackends("a corpus draws passages of the text, up to its end", async (backend) => {
  await withDevice(backend, async () => {
    manualSeed(1);
    const corpus = new Corpus("abcdefgh");
    const passages = await corpus.draw(200, 3).toArray() as number[][];
    const found = new Set(
      passages.map((passage) => passage.map((id) => corpus.characters[Number(id)]).join("")),
    );
    assertEquals([...found].sort(), ["abc", "bcd", "cde", "def", "efg", "fgh"]);
  });
});

Deno.test("the parts of a corpus have the whole's numbers for characters", () => {
  const [beginning, rest] = withDevice("cpu", () => new Corpus("abcabcabxx").split(0.8));
  assertEquals([beginning.length, rest.length], [8, 2]);
  assertEquals([...rest.encode("ax")], [0, 3]);
});

Deno.test("a corpus refuses characters that it does not have", () => {
  const corpus = withDevice("cpu", () => new Corpus("abba"));
  assertEquals([...corpus.encode("bab")], [1, 0, 1]);
  assertThrows(() => corpus.encode("abc"), RangeError, 'Cannot encode "c"');
});

Deno.test("the transformer's help lists its flags, and mistakes are said", async () => {
  const { code, out } = await runExample("transformer.ts", ["--help"]);
  assertEquals(code, 0);
  for (const flag of ["steps", "batch-size", "lr", "length", "temperature", "device", "seed"]) {
    assertStringIncludes(out, `--${flag} `);
  }
  const wrong = await runExample("transformer.ts", ["--steps", "many"]);
  assertEquals([wrong.code, wrong.out], [2, ""]);
  assertStringIncludes(wrong.err, '--steps takes a whole number above 0: got "many"');
});
