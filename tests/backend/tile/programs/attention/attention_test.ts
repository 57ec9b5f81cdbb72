/** Attention and its gradients by every way to multiply, as the interpreter runs them. */
import { assert, assertEquals, AssertionError, assertThrows } from "@std/assert";
import { dtypes, type TypedArray } from "../../../../../backend/graph/dtype.ts";
import { withExpressions } from "../../../../../backend/tile/language/expression.ts";
import type { TileKernel } from "../../../../../backend/tile/language/statements.ts";
import { splitVectors } from "../../../../../backend/tile/passes/splitting.ts";
import type { AttentionPart } from "../../../../../backend/tile/programs/attention/attention.ts";
import type { FragmentForm } from "../../../../../backend/tile/programs/attention/fragment_blocks.ts";
import { partBuffers } from "../../../../../backend/tile/programs/attention/attention_parts.ts";
import { featureForm } from "../../../../../backend/tile/programs/attention/feature_form.ts";
import {
  featureAttention,
  fragmentAttention,
  itemAttention,
  joinedAttention,
  laneAttention,
} from "../../../../../backend/tile/programs/attention/programs.ts";
import {
  type AttentionCase,
  attentionCase,
  type AttentionPass,
  compare,
  type FilledCase,
  filledPass,
  headByHead,
  numbers,
  passesOf,
} from "../../../attention_cases.ts";
import { changed, countOf, without } from "../../changed.ts";
import { interpret, type Report } from "../../interpreter.ts";

type ProgramOf = (pass: AttentionPass, part: AttentionPart) => TileKernel;

function namer(): () => string {
  let count = 0;
  return () => `p${count++}`;
}

const byItems = (crossing: "shuffle" | "local"): ProgramOf => ({ kernel }, part) =>
  itemAttention(part, kernel, { rows: 32, columns: 16 }, crossing, namer());

const byLanes = (vectors: number): ProgramOf => ({ kernel }, part) =>
  laneAttention(part, kernel, { own: vectors, tile: { vectors, step: 4 } }, namer());
/** As vectors of four lanes compute it, with a statement for products of blocks. */
const byBlocks: ProgramOf = ({ kernel }, part) =>
  withExpressions(() => {
    const form = { own: 2, tile: { vectors: 1, step: 6 }, byBlocks: true };
    const program = laneAttention(part, kernel, form, namer());
    return { ...program, body: splitVectors(program.body, 4) };
  });

const byFragments = (form: Partial<FragmentForm> = {}): ProgramOf => ({ kernel }, part) => {
  const dtype = kernel.query.dtype as FragmentForm["dtype"];
  const holdsRows = !form.byWarpgroups && part !== "keyGradient";
  const whole = { dtype, tiles: 1, columns: 32, byWarpgroups: false, ...form, holdsRows } as const;
  return fragmentAttention(part, kernel, whole, namer());
};

const half = attentionCase([2, 21, 37, 16, 32]), float = { ...half, dtype: "float32" } as const;
const odd = { ...float, features: 7, values: 21 }, alone = { ...half, heads: 1 };
const blended = { mask: true, dropout: true };
const cases: readonly (readonly [string, AttentionCase, ProgramOf])[] = [
  ["items, odd sizes", odd, byItems("local")],
  ["items, causal, a mask, dropout", { ...float, ...blended, isCausal: true }, byItems("shuffle")],
  ["items, causal, interleaved", {
    ...{ ...float, queries: 40, isCausal: true, isInterleaved: true },
  }, byItems("local")],
  ["items, halves", { ...half, dtype: "bfloat16", scale: 30 }, byItems("shuffle")],
  ["lanes, odd sizes", { ...odd, keys: 70 }, byLanes(1)],
  ["lanes, causal, squares", { ...float, queries: 33, isCausal: true }, byLanes(2)],
  ["lanes, halves, a mask", { ...half, scale: 30, mask: true }, byLanes(2)],
  ["blocks, odd sizes, dropout", { ...odd, keys: 70, dropout: true }, byBlocks],
  ["blocks, causal, halves", { ...half, queries: 33, isCausal: true }, byBlocks],
  ["warps", { ...alone, queries: 70 }, byFragments()],
  ["warps, growing scores", { ...alone, keys: 70, scale: 40 }, byFragments()],
  ["warps of two rows, causal", { ...half, isCausal: true }, byFragments({ tiles: 2 })],
  ["warps, bfloat16, a mask and dropout", {
    ...{ ...alone, ...blended, dtype: "bfloat16", isInterleaved: true },
  }, byFragments()],
  ["warpgroups, causal", {
    ...{ ...alone, keys: 70, features: 64, values: 64, isCausal: true },
  }, byFragments({ byWarpgroups: true, columns: 64 })],
];

const partsOf = ({ kernel }: AttentionPass): AttentionPart[] =>
  kernel.backward ? ["queryGradient", "keyGradient"] : ["forward"];

/** Runs programs of a pass: the faults that were found, and the outputs. */
function run(
  { kernel, inputs }: AttentionPass,
  programs: readonly TileKernel[],
  scratch: readonly { readonly size: number }[] = [],
): { faults: Report["faults"]; found: TypedArray[] } {
  const buffers: Record<string, ArrayBuffer> = {};
  inputs.forEach((x, k) => buffers[`a${k}`] = x.buffer as ArrayBuffer);
  kernel.outputs.forEach(({ dtype, size }, k) =>
    buffers[`o${k}`] = new ArrayBuffer(size * dtypes[dtype].bytes)
  );
  scratch.forEach(({ size }, k) =>
    buffers[`o${kernel.outputs.length + k}`] = new Float32Array(size).fill(NaN).buffer
  );
  const faults = new Map<string, number>();
  for (const program of programs) {
    interpret(program, buffers).faults.forEach((count, text) => faults.set(text, count));
  }
  const found = kernel.outputs.map(({ dtype, size }, k) =>
    dtypes[dtype].view(buffers[`o${k}`]!, 0, size)
  );
  return {
    faults,
    found: kernel.isInterleaved ? found.map((x, k) => headByHead(kernel, x, k)) : found,
  };
}

for (const [name, each, programOf] of cases) {
  Deno.test(`writeAttention has the values of the plain evaluator, without a fault: ${name}`, () => {
    for (const pass of passesOf(each)) {
      const kernel = { ...pass.kernel, isInterleaved: each.isInterleaved ?? false };
      const own = { ...pass, kernel };
      const { faults, found } = run(own, partsOf(own).map((part) => programOf(own, part)));
      assertEquals([...faults], [], `${name}, ${kernel.pass}`);
      compare(`${name}, ${kernel.pass}`, kernel, found, pass.expected);
    }
  });
}

Deno.test("writeAttention: a work-item alone has all gradients of a head", () => {
  const [, pass] = passesOf({ ...half, dtype: "float32", keys: 70, isCausal: true });
  for (const programOf of [byLanes(2), byBlocks]) {
    const { faults, found } = run(pass, [programOf(pass, "headGradients")]);
    // Gradients of queries are added up where they are stored.
    assertEquals([...faults.keys()], ["result given twice"]);
    compare("heads", pass.kernel, found, pass.expected);
  }
});

Deno.test("writeAttention: the interpreter sees each barrier, wait and shuffle that is taken out", () => {
  const programs: Record<string, readonly [AttentionCase, ProgramOf]> = {
    items: [{ ...half, dtype: "float32", heads: 1, features: 7 }, byItems("local")],
    warps: [{ ...half, heads: 1 }, byFragments()],
  };
  for (const [name, [each, programOf]] of Object.entries(programs)) {
    for (const pass of passesOf(each)) {
      const [part] = partsOf(pass) as [AttentionPart], program = programOf(pass, part);
      const isSeen = (changed: TileKernel): boolean => {
        const { faults, found } = run(pass, [changed]);
        if (faults.size > 0) return true;
        try {
          const outputs = pass.kernel.outputs.slice(0, 1);
          compare(name, { ...pass.kernel, outputs }, found, pass.expected);
          return false;
        } catch {
          return true;
        }
      };
      assert(!isSeen(program), name);
      for (const kind of ["barrier", "wait", "shuffle"] as const) {
        for (let n = 0; n < countOf(program, kind); n++) {
          assert(isSeen(without(program, kind, n)), `${name}, ${part}: ${kind} ${n}`);
        }
      }
    }
  }
});

Deno.test("writeAttention: the interpreter sees exchanged words of weights", () => {
  const [pass] = passesOf({ ...half, heads: 1 }), program = byFragments()(pass, "forward");
  const exchanged = changed(
    program,
    (s) => s.s === "matrices" && s.how === "columns" ? { ...s, how: "rows" } : s,
  );
  const { found } = run(pass, [exchanged]);
  assertThrows(() => compare("exchanged", pass.kernel, found, pass.expected), AssertionError);
});

/** A few queries on GPUs or CPUs, with so many parts of the keys. */
const byFeatures = (isGPU: boolean, parts: number) => (pass: AttentionPass): TileKernel[] => {
  const form = featureForm(pass.kernel, isGPU);
  return [featureAttention, ...parts > 1 ? [joinedAttention] : []].map((programOf) =>
    programOf(pass.kernel, form, parts, namer())
  );
};

const sizes = { heads: 2, queries: 3, keys: 90, features: 32, values: 16 };
const cache = { dtype: "float32", lengths: [70, 3], ...sizes } as const;
const filledCases: readonly (readonly [string, FilledCase, number, ...boolean[]])[] = [
  ["one part", cache, 1, true, false],
  ["parts, of which some have no keys", { ...cache, lengths: [90, 40, 1] }, 3, true, false],
  ["odd sizes", { ...cache, features: 7, values: 5 }, 2, true, false],
  ["a window, growing scores", { ...cache, isCausal: true, window: 9, scale: 30 }, 2, true, false],
  ["a window and a cap", { ...cache, window: 20, cap: 2 }, 2, true, false],
  ["bytes", { ...cache, isBytes: true }, 2, true, false],
  ["bytes, odd sizes", { ...cache, features: 6, values: 7, isBytes: true, cap: 3 }, 1, true, false],
  [
    "float16, queries in two groups",
    {
      ...{ ...cache, dtype: "float16", queries: 11, lengths: [70, 30], isCausal: true },
    },
    2,
    true,
    false,
  ],
  ["bfloat16, long rows", { ...cache, dtype: "bfloat16", features: 256, values: 320 }, 2, true],
  ["bfloat16, bytes", { ...cache, dtype: "bfloat16", isBytes: true, values: 24 }, 2, true, false],
];

for (const [name, each, parts, ...devices] of filledCases) {
  for (const isGPU of devices) {
    const device = isGPU ? "a GPU" : "a CPU";
    Deno.test(`featureAttention looks at what is filled, on ${device}: ${name}`, () => {
      const pass = filledPass(each);
      const scratch = parts > 1 ? partBuffers(pass.kernel, parts) : [];
      const { faults, found } = run(pass, byFeatures(isGPU, parts)(pass), scratch);
      assertEquals([...faults], []);
      compareFilled(name, pass, found);
    });
  }
}

/** Expected values are floats, whatever the kernel's outputs are. */
function compareFilled(name: string, pass: AttentionPass, found: readonly TypedArray[]): void {
  const { dtype, size } = pass.kernel.outputs[0]!;
  const floats = [Float32Array.from(numbers(found[0]!, dtype))];
  compare(name, { ...pass.kernel, outputs: [{ dtype: "float32", size }] }, floats, pass.expected);
}

for (
  const [name, each, programOf] of [
    ["items", { ...cache, isCausal: true, window: 30 }, byItems("local")],
    [
      "items, bytes",
      { ...cache, queries: 20, lengths: [70, 20], isBytes: true },
      byItems("shuffle"),
    ],
    ["lanes", { ...cache, queries: 20, lengths: [70, 20], isCausal: true, window: 9 }, byLanes(2)],
    ["lanes, bytes", { ...cache, queries: 20, isBytes: true, cap: 2 }, byLanes(1)],
    [
      "warps",
      { ...cache, dtype: "bfloat16", queries: 40, lengths: [70, 40], isCausal: true, window: 25 },
      byFragments(),
    ],
    ["warps, a cap", { ...cache, dtype: "float16", cap: 2 }, byFragments()],
  ] as const
) {
  Deno.test(`writeAttention looks at what is filled: ${name}`, () => {
    const pass = filledPass(each), { faults, found } = run(pass, [programOf(pass, "forward")]);
    assertEquals([...faults], []);
    compareFilled(name, pass, found);
  });
}

Deno.test("featureAttention: the interpreter sees each barrier that is taken out", () => {
  const pass = filledPass(cache), scratch = partBuffers(pass.kernel, 2);
  const programs = byFeatures(true, 2)(pass);
  programs.forEach((program, at) => {
    const count = countOf(program, "barrier");
    assert(count > 0);
    for (let n = 0; n < count; n++) {
      const { faults } = run(pass, programs.with(at, without(program, "barrier", n)), scratch);
      assert(faults.size > 0, `kernel ${at}, barrier ${n}`);
    }
  });
});
