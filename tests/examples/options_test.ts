import {
  assert,
  assertEquals,
  assertRejects,
  assertStringIncludes,
  assertThrows,
} from "@std/assert";
import { reportUsage } from "../../examples/flags.ts";
import { helpText, parseOptions, UsageError } from "../../examples/train/options.ts";

const flags = ["device", "dataset", "data", "model", "epochs", "batch-size", "lr", "seed", "out"];

Deno.test("parseOptions reads every flag, with a space or an equals sign", () => {
  const spaced = parseOptions(
    ("--device cl:0:1 --dataset fashion --data d --model cnn --epochs 3 --batch-size 64 " +
      "--lr 1e-2 --seed 7 --out o").split(" "),
  );
  assertEquals(spaced, {
    device: "cl:0:1",
    dataset: "fashion",
    data: "d",
    model: "cnn",
    epochs: 3,
    batchSize: 64,
    lr: 0.01,
    seed: 7,
    out: "o",
  });
  assertEquals(parseOptions(["--model=cnn"]), parseOptions(["--model", "cnn"]));
});

Deno.test("parseOptions has a default for every flag", () => {
  const options = parseOptions([]);
  assert(options !== "help");
  assertEquals(options.dataset, "digits");
  assertEquals(options.model, "mlp");
  assertEquals(options.device, "auto");
});

Deno.test("help lists every flag and its default", () => {
  assertEquals(parseOptions(["--help"]), "help");
  assertEquals(parseOptions(["--model", "cnn", "-h"]), "help");
  for (const flag of flags) assertStringIncludes(helpText(), `--${flag} `);
});

Deno.test("an unknown flag is an error that lists the right ones", () => {
  for (const args of [["--modell", "cnn"], ["-m"], ["--no-seed"], ["cnn"], ["--", "x"]]) {
    const { message } = assertThrows(() => parseOptions(args), UsageError);
    for (const flag of [...flags, "help"]) assertStringIncludes(message, `--${flag}`);
  }
  assertThrows(() => parseOptions(["--modell", "cnn"]), UsageError, "--modell");
});

const wrong: [string[], string][] = [
  [["--model", "rnn"], '--model takes mlp or cnn: got "rnn"'],
  [["--dataset", "cifar"], '--dataset takes digits or mnist or fashion: got "cifar"'],
  [["--device", "tpu"], '--device takes auto, gpu, cl, cpu or cl:PLATFORM:DEVICE: got "tpu"'],
  [["--epochs", "0"], '--epochs takes a whole number above 0: got "0"'],
  [["--epochs", "1.5"], 'got "1.5"'],
  [["--epochs", "1e400"], 'got "1e400"'],
  [["--batch-size", "-1"], "--batch-size takes"],
  [["--lr", "fast"], '--lr takes a number above 0: got "fast"'],
  [["--lr", ""], 'got ""'],
  [["--lr", "NaN"], 'got "NaN"'],
  [["--seed", "-1"], "--seed takes a whole number from 0 on"],
  [["--seed"], "--seed takes a whole number from 0 on: got nothing"],
  [["--out="], '--out takes a folder: got ""'],
];

for (const [args, says] of wrong) {
  Deno.test(`"${args.join(" ")}" is an error that says what is right`, () => {
    assertThrows(() => parseOptions(args), UsageError, says);
  });
}

Deno.test("a file that is not there is said in a line, a defect with its stack", async () => {
  const said: string[] = [], error = console.error;
  console.error = (line: string) => void said.push(line);
  try {
    const message = "No such file or directory (os error 2): open 'x.safetensors'";
    await reportUsage(() => Promise.reject(new Deno.errors.NotFound(message)));
    assertEquals([said, Deno.exitCode], [[message], 2]);
    await reportUsage(() => Deno.readTextFile(".").then(() => {}));
    assertStringIncludes(said.at(-1)!, "directory");
    await assertRejects(
      () => reportUsage(() => Promise.reject(new TypeError("a defect"))),
      TypeError,
    );
  } finally {
    console.error = error;
    Deno.exitCode = 0;
  }
});
