// Suite: first; takes long.
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { Corpus } from "../../examples/transformer/corpus.ts";
import { Transformer } from "../../examples/transformer/model.ts";
import { Vocabulary } from "../../examples/transformer/vocabulary.ts";
import { manualSeed, noGrad, Tensor, withDevice } from "../../mod.ts";
import { ignoreOn, testOnBackends, testOnCPU } from "../opencl.ts";
import { runExample } from "./run_example.ts";

/** The same size of batches everywhere: what one process compiles the next finds. */
const batch = ["--batch-size", "4"];
const few = ["--steps", "60", ...batch, "--length", "30"];

/** The loss of each round of 50 steps, and that of the text that it does not see. */
function losses(out: string): [seen: number, unseen: number][] {
  return [...out.matchAll(/^round .* loss (\S+) {2}unseen (\S+) /gm)]
    .map(([, seen, unseen]) => [Number(seen), Number(unseen)]);
}

Deno.test("the transformer learns and writes, the same on both backends", {
  ignore: ignoreOn("cl"),
}, async () => {
  const lossesOf: number[][] = [];
  for (const device of ["cpu", "cl"]) {
    let pieces = 0; // of the text, which comes token by token
    const args = [...few, "--device", device];
    const { code, out, err } = await runExample("transformer.ts", args, (out) => {
      if (out.includes("round 2/2")) pieces++;
    });
    assertEquals(code, 0, err);
    assert(pieces > 2, `the text came in ${pieces} pieces`);
    const [first, last] = losses(out), chance = Math.log(2048);
    assert(first![0] < chance && first![0] > 4, `a little better than chance: ${first}`);
    assert(last![0] < first![0] - 0.2 && last![1] < first![1], out);
    assert(Math.abs(last![0] - last![1]) < 0.5, `it has not learned by heart: ${last}`);
    assert(/unseen.*\n[^]*\n\n[^]{30,}\n$/.test(out), "then 30 tokens, and the end of the line");
    lossesOf.push(first!);
  }
  const [cpu, cl] = lossesOf;
  cpu!.forEach((loss, k) => assert(Math.abs(loss - cl![k]!) < 2e-2, `${cpu} ${cl}`));
});

async function textOf(backend: string, seed: string): Promise<string> {
  const args = ["--steps", "2", ...batch, "--length", "8", "--seed", seed, "--device", backend];
  const { out } = await runExample("transformer.ts", args);
  return out.replaceAll(/ +[\d,]+ tokens\/s/g, "");
}

testOnBackends("the same seed writes the same text, another seed another", async (backend) => {
  const first = await textOf(backend, "1");
  assertEquals(await textOf(backend, "1"), first);
  if (backend === "cpu") assert(await textOf(backend, "2") !== first);
});

testOnBackends("Ctrl+C ends the training, not the writing", async (backend) => {
  const args = ["--device", backend, "--steps", "1000000", ...batch, "--length", "10"];
  let isSent = false; // a second Ctrl+C would end it at once
  const { code, out, err } = await runExample("transformer.ts", args, (out, child) => {
    if (isSent || losses(out).length === 0) return;
    isSent = true;
    child.kill("SIGINT");
  });
  assertEquals(code, 130, out + err);
  const [, written] = out.split("interrupted: it writes what it has learned\n\n");
  assert(written!.length >= 10 + 1 && written!.endsWith("\n"), out);
});

Deno.test("the transformer sees no token before it has come", async () => {
  const size = { tokens: 7, context: 6, width: 8, heads: 2, layers: 2, dropout: 0.5 };
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

testOnBackends("a corpus draws passages of the text, up to its end", async () => {
  manualSeed(1);
  const vocabulary = new Vocabulary("abcdefgh", 8);
  const passages = await new Corpus("abcdefgh", vocabulary).draw(200, 3).toArray() as number[][];
  const found = new Set(
    passages.map((passage) => passage.map((id) => vocabulary.tokens[Number(id)]).join("")),
  );
  assertEquals([...found].sort(), ["abc", "bcd", "cde", "def", "efg", "fgh"]);
});

testOnCPU("a corpus divides into a beginning and the rest", async () => {
  const corpus = new Corpus("abcabcabxx", new Vocabulary("abcabcabxx", 4));
  const [beginning, rest] = corpus.split(0.8);
  assertEquals([beginning.length, rest.length], [8, 2]);
  assertEquals(await rest.ids.toArray(), [3, 3]);
});

Deno.test("a vocabulary joins what is seen side by side most, within words", () => {
  const text = "low lower lowest low", { tokens } = new Vocabulary(text, 12);
  assertEquals(tokens.slice(0, 8), [..." elorstw"]);
  assertEquals(tokens.slice(8), ["lo", "low", " low", " lowe"]);
  const vocabulary = new Vocabulary(text, 12), ids = vocabulary.encode("slow low lower");
  assertEquals(ids.map((id) => tokens[id]), ["s", "low", " low", " lowe", "r"]);
  assertEquals(new Vocabulary("ab", 99).tokens, ["a", "b", "ab"], "no more than there is to join");
});

Deno.test("a vocabulary refuses characters that it does not have", () => {
  const vocabulary = new Vocabulary("abba", 2);
  assertEquals(vocabulary.encode("bab"), [1, 0, 1]);
  assertThrows(() => vocabulary.encode("abc"), RangeError, 'Cannot encode "c"');
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
