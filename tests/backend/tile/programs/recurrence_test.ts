/** Recurrent layers as tile programs, as the interpreter runs them. */
import { assert, assertEquals } from "@std/assert";
import { runSpecial } from "../../../../backend/cpu/reference/reference_special.ts";
import { gateCounts, type RecurrentGates } from "../../../../backend/graph/op.ts";
import { withExpressions } from "../../../../backend/tile/language/expression.ts";
import { splitVectors } from "../../../../backend/tile/passes/splitting.ts";
import {
  type Recurrence,
  recurrence,
  type RecurrenceForm,
} from "../../../../backend/tile/programs/lanes/recurrence.ts";
import { interpret } from "../interpreter.ts";

const STEPS = 3, BATCH = 5, COLUMNS = 32;

/** A kernel and the sizes of its inputs. */
function layer(
  gates: RecurrentGates,
  pass: Recurrence["pass"],
  features: number,
  isReverse: boolean,
) {
  const { states, kept, blocks, gates: count } = gateCounts[gates], rows = STEPS * BATCH;
  const all = (states + kept) * (rows + BATCH) * features;
  const sizes = pass === "forward"
    ? [rows * count * features, features * count * COLUMNS, states * BATCH * features]
    : [all, states * rows * features, count * features * COLUMNS];
  if (gates === "gru" && pass === "forward") sizes.push(count * features);
  const size = pass === "forward" ? all : (rows + BATCH) * blocks * features;
  const kernel: Recurrence = {
    ...{ kind: "special", op: "recurrence", label: "layer", pass, gates, isReverse, features },
    ...{ steps: STEPS, batch: BATCH, columns: COLUMNS, planes: states + kept },
    inputs: sizes.map(() => "float32"),
    output: { dtype: "float32", size },
  };
  return { kernel, sizes };
}

const forms: readonly RecurrenceForm[] = [
  { rows: 3, lanes: 16, tile: { step: 3, vectors: 2 }, byBlocks: false },
  { rows: 5, lanes: 4, tile: { step: 4, vectors: 1 }, byBlocks: true },
];

for (const gates of Object.keys(gateCounts) as RecurrentGates[]) {
  Deno.test(`recurrence: all steps of ${gates}, whole vectors of features and parts of them`, () => {
    for (const form of forms) {
      for (const pass of ["forward", "backward"] as const) {
        for (const features of [16, 21]) {
          compare(form, layer(gates, pass, features, pass === "forward"));
        }
      }
    }
  });
}

function compare(form: RecurrenceForm, { kernel, sizes }: ReturnType<typeof layer>): void {
  const inputs = sizes.map((size, n) =>
    Float32Array.from({ length: size }, (_, k) => Math.sin(k * 1.7 + n) / 2)
  );
  const expected = new Float32Array(kernel.output.size), found = expected.slice();
  runSpecial(kernel, inputs, expected, (value) => value);
  const names: Record<string, ArrayBuffer> = { o0: found.buffer };
  inputs.forEach((input, k) => names[`a${k}`] = input.buffer);
  const program = withExpressions(() => {
    let count = 0;
    const tile = recurrence(kernel, form, () => `p${count++}`);
    return { ...tile, body: splitVectors(tile.body, form.lanes) };
  });
  const { faults } = interpret(program, names), { gates, pass, features } = kernel;
  const what = `${gates}, ${pass}, ${features} features, vectors of ${form.lanes}`;
  assertEquals([...faults], [], what);
  expected.forEach((value, k) => assert(Math.abs(found[k]! - value) < 1e-4, `${what}: ${k}`));
}
