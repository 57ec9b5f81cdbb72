/** The forms of public functions: few arguments in a row, no truth values among them, waits by await. */
import { assertEquals } from "@std/assert";
import {
  type Callable,
  callables,
  type Parameter,
  type Public,
  publicDeclarations,
  typeOf,
} from "./declarations.ts";
import { isOptions, optionRecords } from "./option_parameters.ts";

/** Arguments in a row beside tensors and options. */
const MAX_IN_A_ROW = 2;

/** Functions with more of them. */
const longer: Readonly<Record<string, readonly string[]>> = {
  "the order is PyTorch's and NumPy's, which people know": [
    ..."arange linspace randint logNormal laplace cauchy gumbel truncatedNormal".split(" ")
      .map((name) => `Tensor.${name}`),
    ..."Conv1d Conv2d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d".split(" ")
      .map((name) => `new nn.${name}`),
    ...["Tensor::decodeBlocks", "Tensor::unfold", "func.jvp", "func.functionalCall"],
    ...["new nn.TransformerDecoder", "new nn.TransformerEncoder", "new optim.SequentialLR"],
  ],
  "each is needed, and of another type": [
    ...["saveOnnx", "func.hvp", "new optim.Scheduler", "new distributed.ShardedOptimizer"],
    ...["GgufFile::read", "SafetensorsFile::read", "Tensor.fromBlocks"],
  ],
};

/** True for what programs call: below `tensor/` the order is that of C, and of contracts between layers. */
const isForPrograms = ({ declaration }: Public) =>
  declaration.location.filename.includes("/tensor/");

function isTensor(parameter: Parameter): boolean {
  const type = typeOf(parameter);
  return type?.kind === "typeRef" && /^Tensor(Like)?$/.test(type.value.typeName);
}

const isTruth = (parameter: Parameter) =>
  typeOf(parameter)?.kind === "keyword" && typeOf(parameter)!.value === "boolean";

const declarations = await publicDeclarations(), records = await optionRecords();
const functions = declarations.filter(isForPrograms).flatMap(callables);
const inARow = ({ parameters }: Callable) =>
  parameters.filter((parameter) => !isOptions(typeOf(parameter), records));
const names = (found: readonly Callable[]) => [...new Set(found.map(({ name }) => name))].sort();

Deno.test("a function takes two arguments beside tensors, and then an object of options", () => {
  const found = functions.filter((one) =>
    inARow(one).filter((parameter) => !isTensor(parameter)).length > MAX_IN_A_ROW
  );
  assertEquals(names(found), Object.values(longer).flat().sort());
});

Deno.test("a truth value is an option, unless it is all that a function takes", () => {
  const found = functions.filter((one) => one.parameters.length > 1 && inARow(one).some(isTruth));
  assertEquals(names(found), []);
});

Deno.test("what says Sync has a form to be awaited", () => {
  const all = new Set(functions.map(({ name }) => name));
  const sync = [...all].filter((name) => /(?<!::no)Sync$/.test(name));
  assertEquals(sync.filter((name) => !all.has(name.slice(0, -"Sync".length))), []);
  assertEquals(sync.length > 3, true);
});
