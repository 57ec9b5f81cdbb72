/**
 * Makes the package for npm, of the same sources: JavaScript, declarations, the program `train`.
 *
 *     deno run -A tests/runtimes/package.ts [FOLDER]
 *
 * The package's folder is `package` in FOLDER, a new one without it, with the file to be published beside.
 */
import { installTools, succeed, type Tools } from "./tools.ts";
import { copyFiles, entries, root, transpile } from "./transpile.ts";

const NODE = ">=26.4", BUN = ">=1.4";

/** A program of the package: the modules that Node and Bun run as `npx` and `bunx` have it. */
const programs = { train: "examples/train.ts" };

async function main(folder: string, tools: Tools): Promise<string> {
  const config = JSON.parse(await Deno.readTextFile(`${root}deno.json`));
  const target = `${folder}/package`;
  const dependencies = await transpile(tools, {
    modules: [...Object.values<string>(config.exports), ...Object.values(programs), STAND_IN],
    folder: target,
  });
  await copyFiles(["README.md", "LICENSE", "CHANGELOG.md", "examples/data/digits.csv.gz"], target);
  for (const [name, module] of Object.entries(programs)) {
    const js = (path: string) => path.replace(/\.ts$/, ".js");
    await Deno.writeTextFile(
      `${target}/${name}.js`,
      `#!/usr/bin/env node\nimport "./${js(STAND_IN)}";\nawait import("./${js(module)}");\n`,
    );
    await Deno.chmod(`${target}/${name}.js`, 0o755);
  }
  const manifest = {
    name: config.name,
    version: config.version,
    description: "Tensors, automatic differentiation and neural networks on any OpenCL device",
    license: config.license,
    engines: { node: NODE, bun: BUN },
    ...entries(config.exports),
    bin: Object.fromEntries(Object.keys(programs).map((name) => [name, `./${name}.js`])),
    dependencies,
  };
  await Deno.writeTextFile(`${target}/package.json`, JSON.stringify(manifest, null, 2) + "\n");
  const [packed] = JSON.parse(await succeed("npm", ["pack", "--json", target], folder));
  return `${folder}/${packed.filename}`;
}

/** Programs of examples/ are written for Deno: what they take of it on Node and Bun. */
const STAND_IN = "tests/runtimes/deno.ts";

/** Makes the package in a folder; the path of the file to be published. */
export const makePackage = main;

if (import.meta.main) {
  const folder = Deno.args[0] ?? await Deno.makeTempDir({ prefix: "netcl-npm" });
  console.log(await main(folder, await installTools(`${folder}/tools`)));
}
