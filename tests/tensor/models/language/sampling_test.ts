import { assert, assertEquals } from "@std/assert";
import { manager, Tensor } from "../../../../mod.ts";
import {
  chooseNext,
  SamplerState,
  type Sampling,
} from "../../../../tensor/models/language/sampling.ts";
import { testOnBackends } from "../../../opencl.ts";

/** Written by fixtures/make_sampling.py. */
const fixture = JSON.parse(
  Deno.readTextFileSync(new URL("fixtures/sampling.json", import.meta.url)),
) as {
  ids: number[];
  scores: number[];
  cases: { options: Record<string, number>; chances: number[] }[];
};

const names: Readonly<Record<string, keyof Sampling>> = {
  temperature: "temperature",
  top_k: "topK",
  top_p: "topP",
  min_p: "minP",
  repetition_penalty: "repetitionPenalty",
};

/** Draws from 0 to 1 at equal steps: each token comes as often as it is likely. */
const DRAWS = 2000;

for (const { options: theirs, chances } of fixture.cases) {
  const options: Sampling = Object.fromEntries(
    Object.entries(theirs).map(([name, value]) => [names[name]!, value]),
  );
  testOnBackends(`chooseNext draws as transformers does: ${JSON.stringify(options)}`, async () => {
    const { ids, scores } = fixture, count = scores.length;
    const prompts = Array<number[]>(DRAWS).fill(ids);
    using state = new SamplerState(prompts, 1, count, { ...options, seed: 0 }, manager.active);
    using draws = Tensor.fromHost(
      Float32Array.from({ length: DRAWS }, (_, k) => (k + 0.5) / DRAWS),
      { shape: [1, DRAWS] },
    );
    state.draws.assign(draws);
    using row = Tensor.fromHost(Float32Array.from(scores), { shape: [1, count] });
    const logits = row.expand([DRAWS, count]);
    const found = Array<number>(count).fill(0);
    for (const id of await chooseNext(logits, state, options).toNumbers()) found[id]! += 1;
    chances.forEach((chance, id) => {
      const share = found[id]! / DRAWS;
      // Rounded at each end of its range; what was left out never comes.
      assert(Math.abs(share - chance) <= 1.5 / DRAWS, `${id}: ${share}, ${chance} expected`);
      if (chance === 0) assertEquals(found[id], 0, `${id} was left out`);
    });
  });
}
