/**
 * Looks at everything that netcl needs on this machine; each line says good, or what to do.
 *
 *     deno run -A examples/tools/doctor.ts
 */
import { checkCache } from "./doctor/cache.ts";
import {
  checkDeno,
  checkDevices,
  checkEnvironment,
  checkLibrary,
  checkPermissions,
  checkSignals,
} from "./doctor/checks.ts";
import { format } from "./doctor/finding.ts";
import { helpOf, parseFlags, reportUsage } from "../flags.ts";

const about = "Looks at everything that netcl needs on this machine, and says what to do.";

async function examine(): Promise<void> {
  const environment = checkEnvironment(); // first, as loading a driver may set variables
  const permissions = checkPermissions();
  const { findings: library, found } = checkLibrary();
  const findings = [
    checkDeno(),
    ...permissions,
    ...environment,
    ...library,
    ...await checkDevices(found),
    checkCache(),
    checkSignals(),
  ];
  console.log(format(findings));
  if (findings.some(({ remedy }) => remedy !== undefined)) Deno.exitCode = 1;
}

await reportUsage(() => {
  if (parseFlags(Deno.args, {}) !== "help") return examine();
  console.log(helpOf(about, "examples/tools/doctor.ts", {}));
});
