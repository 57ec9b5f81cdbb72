/** Runs some of the programs where each operation runs by itself: with NETCL_EAGER=1. */
import { isEager } from "../../backend/internal.ts";
import { withDevice } from "../../mod.ts";
import { describe, difference, follow, leavesOf, readFixtures } from "./programs.ts";

if (!isEager()) throw new Error("Cannot run eagerly: set NETCL_EAGER=1");
const { programs, numbers } = await readFixtures();
const some = programs.filter((_, k) => k % 20 === 3);
const faults = withDevice("cpu", () =>
  some.flatMap((program) => {
    const found = follow(program, leavesOf(program, numbers));
    const text = difference(program, found, numbers);
    return text === null ? [] : [`${text}\n  in ${describe(program)}`];
  }));
console.log(faults.length > 0 ? faults.join("\n") : `${some.length} programs`);
Deno.exit(faults.length > 0 ? 1 : 0);
