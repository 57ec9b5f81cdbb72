/** Every operation that there is stands in the table, with cases; what is none is named here. */
import { assertEquals } from "@std/assert";
import { nn, Tensor } from "../../mod.ts";
import { binaries, unaries } from "../../tensor/ops/elementwise/elementwise.ts";
import { allCases, titleOf } from "./fixture.ts";
import { apart, operations } from "./operations.ts";

/** Methods of tensors that do not compute, and the tests that hold them. */
const notOperations = new Map(
  Object.entries({
    "realize assign":
      "what a tensor is: tests/tensor/autograd/autograd_test.ts, tests/backend/graph",
    "toHost toHostSync toFloat32 item itemSync toArray explain dispose toString toJSON":
      "reading and letting go",
    "toNumbers print isClose allClose equal": "tests/tensor/execution/printing_test.ts",
    "nonzeroSync uniqueSync maskedSelectAsync":
      "forms of nonzero, unique and maskedSelect: tests/tensor/ops/indexing/selection_test.ts",
    "fromHost fromBuffer to": "on the way to a device: tests/backend/transfers_test.ts",
    "fromBlocks decodeBlocks": "ggml's numbers, not PyTorch's: tests/tensor/blocks_test.ts",
    "rand randn randint randperm randLike randnLike normal bernoulli multinomial permutation":
      "chance: tests/tensor/ops/creation/random_test.ts",
    "exponential gamma beta dirichlet logNormal laplace cauchy gumbel poisson binomial studentT truncatedNormal":
      "chance: tests/tensor/ops/creation/samplers_test.ts",
    "backward registerHook":
      "tests/tensor/autograd/autograd_test.ts, tests/tensor/autograd/hooks_test.ts",
    "indexLike": "a part of other operations: pooling, oneHot, tril",
  }).flatMap(([names, why]) => names.split(" ").map((name) => [name, why] as const)),
);

/** Entries of the tables of functions that a method of another name calls. */
const underOtherNames = new Map([
  ["clampMin", "clamp"],
  ["clampMax", "clamp"],
  ["shiftLeft", "bitwiseLeftShift"],
  ["shiftRight", "bitwiseRightShift"],
]);

function functionsOf(object: object): string[] {
  return Object.entries(Object.getOwnPropertyDescriptors(object))
    .filter(([, d]) => typeof d.value === "function").map(([name]) => name);
}

function methods(): string[] {
  const names: string[] = [];
  for (let p = Tensor.prototype as object; p !== Object.prototype; p = Object.getPrototypeOf(p)) {
    names.push(...functionsOf(p));
  }
  return names.filter((name) => name !== "constructor");
}

Deno.test("every method of tensors is an operation with a row, or named as none", () => {
  const names = new Set([...methods(), ...functionsOf(Tensor)]);
  const missing = [...names].filter((name) => !(name in operations) && !notOperations.has(name));
  assertEquals(missing, []);
  assertEquals([...notOperations.keys()].filter((name) => !names.has(name)), []);
});

Deno.test("every function of the elementwise tables has a row", () => {
  const names = [...Object.keys(unaries), ...Object.keys(binaries)]
    .map((name) => underOtherNames.get(name) ?? name);
  assertEquals(names.filter((name) => !(name in operations)), []);
});

Deno.test("every row has cases that count", () => {
  const covered = new Set(allCases().filter((c) => !apart.has(titleOf(c))).map((c) => c.op));
  assertEquals(Object.keys(operations).filter((name) => !covered.has(name)), []);
  assertEquals([...covered].filter((name) => !(name in operations)), []);
});

Deno.test("every exception is one of a case that there is", () => {
  const titles = new Set(allCases().map(titleOf));
  assertEquals([...apart.keys()].filter((title) => !titles.has(title)), []);
});

/** Functions of `nn` that are no losses: held in tests of their own. */
const noLoss =
  /^(parameter|buffer|scaledDotProductAttention|rotary\w*|applyRotary\w*|fold|unfold|gridSample|affineGrid|celu|.*glu|selu|relu6|hardtanh|.*shrink|softsign|threshold)$/;

Deno.test("every loss is held against PyTorch, with its gradient", () => {
  const losses = functionsOf(nn).filter((name) => /^[a-z]/.test(name) && !noLoss.test(name));
  const test = ["losses_test", "further_losses_test"]
    .map((name) => Deno.readTextFileSync(new URL(`../tensor/nn/${name}.ts`, import.meta.url)))
    .join("\n");
  const held = losses.filter((name) =>
    new RegExp(`\\b(nn\\.${name}\\(|${name.replace("WithLogits", "")})`, "i").test(test)
  );
  assertEquals(held.sort(), losses.sort());
  assertEquals(losses.includes("crossEntropy") && losses.includes("ctc"), true);
});
