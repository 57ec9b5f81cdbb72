/**
 * Compiles what netcl generates for GPUs of AMD and Intel with these vendors' own compilers: none of these
 * devices has to be there.
 *
 *     deno run -A tests/compilers/check.ts [--folder FOLDER] [--only TEXT] [--share] [device ...]
 *
 * The compilers are Debian's packages. They are put below the folder (1 GB; default "netcl-compilers" beside
 * other temporary files), where they are found the next time. Programs are planned on PoCL with the limits of
 * the device. The check fails where a compiler refuses a text, where a launch has more work-items in a group
 * than the device takes, where more kernels spill registers than were seen before, and where the assembly of a
 * product on matrix units lacks their instruction. With --share it compiles a minute's share, and nothing where
 * the folder has no compilers.
 */
import { parseArgs } from "node:util";
import { availableParallelism, tmpdir } from "node:os";
import { compileFor, compilerIn } from "./compile.ts";
import { hasDebian, installDebian } from "../systems/debian_folder.ts";
import { programs } from "./programs.ts";
import { compilers, foreign } from "./vendors.ts";

/** Products of halves, and what is around them. */
const SHARE = /^(product with what follows|softmax and losses) \(float16\)/;

const { values: { folder, only, share }, positionals } = parseArgs({
  args: Deno.args,
  allowPositionals: true,
  options: {
    folder: { type: "string", default: `${tmpdir()}/netcl-compilers` },
    only: { type: "string", default: "" },
    share: { type: "boolean", default: false },
  },
});
const unknown = positionals.find((name) => !(name in foreign));
if (unknown !== undefined) {
  throw new RangeError(
    `Cannot compile for ${unknown}: the devices are ${Object.keys(foreign).join(", ")}`,
  );
}

if (share && !await hasDebian(folder, compilers)) {
  console.log(
    "There are no compilers: `deno task compile-check` installs them in a folder of its own",
  );
  Deno.exit(0);
}
const compile = compilerIn(await installDebian(folder, compilers));
const chosen = new Map(
  [...programs].filter(([name]) => share ? SHARE.test(name) : name.includes(only)),
);
console.log(`${chosen.size} programs`);
let failed = 0;
for (const name of positionals.length > 0 ? positionals : Object.keys(foreign)) {
  const target = foreign[name]!, start = performance.now();
  const { kernels, faults, spilling, onUnits } = await compileFor(
    target,
    chosen,
    compile,
    availableParallelism(),
  );
  const isTooMuch = spilling.length > target.maxSpilling;
  if (faults.length > 0 || isTooMuch) failed++;
  if (onUnits > 0) console.log(`${name}: ${onUnits} kernels have ${target.instruction.source}`);
  const seconds = ((performance.now() - start) / 1000).toFixed(0);
  console.log(
    `${name}: ${kernels} kernels in ${seconds} s, ${faults.length} faults, ${spilling.length} spill`,
  );
  for (const fault of faults) console.log(`  ${fault}`);
  for (const kernel of spilling) console.log(`  spills: ${kernel}`);
}
Deno.exit(failed > 0 ? 1 : 0);
