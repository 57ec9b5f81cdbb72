/** JavaScript and declarations of the sources, as Node and Bun take them. */
import { dirname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { succeed, type Tools } from "./tools.ts";

/** Folder of the sources. */
export const root = fileURLToPath(new URL("../../", import.meta.url));

/** Modules, and the place of their JavaScript. */
interface Transpiled {
  /** Modules, from the root; what they import comes with them. */
  readonly modules: readonly string[];
  readonly folder: string;
}

const options = {
  // `deno check` has checked them; here Deno's own types are not known.
  noCheck: true,
  declaration: true,
  strict: true,
  exactOptionalPropertyTypes: true,
  target: "esnext",
  lib: ["esnext", "dom", "dom.iterable", "dom.asynciterable"],
  types: [],
  module: "esnext",
  moduleResolution: "bundler",
  rewriteRelativeImportExtensions: true,
  rootDir: root,
};

/** Packages with a version, as Deno names them. */
const registryName = /(["'])npm:(@?[^"'@]+)@([^"']+)\1/g;
/** Modules that are named by an address: the compiler rewrites imports alone. */
const address = /(import\.meta\.resolve\(|new URL\()"(\.[^"]+)\.ts"/g;

/** Packages that modules of a folder import, with their versions. */
export type Dependencies = Record<string, string>;

/**
 * Writes JavaScript and declarations of modules. The module of the host takes the implementation that the
 * runtime's condition chooses.
 *
 * @returns The packages that they import.
 */
export async function transpile(
  { typescript }: Tools,
  { modules, folder }: Transpiled,
): Promise<Dependencies> {
  const runtimes = ["node", "bun"].map((name) => `ffi/runtime/${name}.ts`);
  // Addressed, not imported.
  const helpers = [
    "backend/opencl/building/build_helper.ts",
    "backend/opencl/tiers/compile_process.ts",
    "tensor/data/sample_worker.ts",
  ];
  const paths = [...modules, ...runtimes, ...helpers];
  const config = `${folder}/tsconfig.json`, files = paths.map((path) => resolve(root, path));
  await Deno.mkdir(folder, { recursive: true });
  await Deno.writeTextFile(
    config,
    JSON.stringify({ compilerOptions: { ...options, outDir: folder }, files }),
  );
  await succeed(typescript, ["-p", config], root);
  await Deno.remove(config);
  await Deno.writeTextFile(`${folder}/ffi/runtime/host.js`, 'export { host } from "#host";\n');
  const dependencies: Dependencies = {};
  for await (const path of filesIn(folder)) {
    if (/\.(js|d\.ts)$/.test(path)) await complete(path, dependencies);
  }
  return dependencies;
}

async function complete(path: string, dependencies: Dependencies): Promise<void> {
  const text = await Deno.readTextFile(path);
  const next = text
    .replace(registryName, (_, quote, name, version) => {
      dependencies[name] = version;
      return `${quote}${name}${quote}`;
    })
    .replace(address, (_, call, module) => `${call}"${module}.js"`);
  if (next !== text) await Deno.writeTextFile(path, next);
}

async function* filesIn(folder: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(folder)) {
    if (name === "node_modules") continue;
    const path = `${folder}/${name}`;
    if (isDirectory) yield* filesIn(path);
    else yield path;
  }
}

/** Copies files that are no modules, by their names from the root. */
export async function copyFiles(names: readonly string[], folder: string): Promise<void> {
  for (const name of names) {
    await Deno.mkdir(dirname(`${folder}/${name}`), { recursive: true });
    await Deno.copyFile(`${root}${name}`, `${folder}/${name}`);
  }
}

/** The fields of package.json that say how the package is loaded. */
export function entries(exports: Readonly<Record<string, string>>): object {
  const modules = Object.entries(exports).map(([name, path]) => {
    const [stem] = path.split(".ts");
    return [name, { types: `${stem}.d.ts`, default: `${stem}.js` }];
  });
  return {
    type: "module",
    exports: Object.fromEntries(modules),
    imports: {
      "#host": Object.fromEntries(
        [["deno", "deno"], ["bun", "bun"], ["default", "node"]].map((
          [condition, runtime],
        ) => [condition, `./ffi/runtime/${runtime}.js`]),
      ),
    },
  };
}
